"""Read a log that a person names: a file, or what is piped in."""

from __future__ import annotations

import sys
from pathlib import Path

from kitctl.errors import Exit, KitError


def is_file(path: str) -> bool:
    """Whether there is a file of that name."""
    return Path(path).is_file()


def read_log_file(path: str) -> str:
    """The log's text, bytes that are no UTF-8 replaced; ``-`` reads stdin.

    Raises KitError ``file-unreadable`` (exit 2) when it cannot be read.
    """
    try:
        raw = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as broken:
        raise KitError(
            "file-unreadable",
            f"{path} cannot be read: {broken}",
            remedy=f"check that {path} exists and is readable by you",
            exit_code=Exit.USAGE,
        ) from broken
    return raw.decode("utf-8", "replace")
