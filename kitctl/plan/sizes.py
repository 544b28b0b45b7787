"""How is a number of bytes written for a person?"""

from __future__ import annotations


def size_text(size_bytes: int) -> str:
    """``29.0 GB``, ``512 MB``, ``64 MB``: decimal units, as disks are sold."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit in ("B", "kB", "MB") else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} TB"
