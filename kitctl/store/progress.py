"""How far is a long transfer, how fast, and how long will it take?"""

from __future__ import annotations

from kitctl.store.sizes import duration_text, size_text


def progress_text(*, verb: str, done_bytes: int, total_bytes: int, bytes_per_s: float) -> str:
    """``pulling 120 GB of 595 GB (20 %), 1.20 GB/s, 6 min 36 s left``."""
    percent = 100 * done_bytes // total_bytes if total_bytes else 100
    head = f"{verb} {size_text(done_bytes)} of {size_text(total_bytes)} ({percent} %)"
    if bytes_per_s <= 0:
        return f"{head}, no byte is coming"
    left = duration_text(max(0, total_bytes - done_bytes) / bytes_per_s)
    return f"{head}, {size_text(bytes_per_s)}/s, {left} left"
