"""Ask the person at the terminal."""

from __future__ import annotations

import sys


def ask_yes(question: str) -> bool:
    """Whether the answer to ``question`` is yes; an empty answer and the end of input are a no."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
