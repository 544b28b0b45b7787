"""Which CDI devices does the host offer? Reads ``nvidia-ctk cdi list`` and its version."""

from __future__ import annotations

import re

_DEVICE = re.compile(r"[a-z0-9.-]+/[a-z0-9._-]+=\S+")
_COUNT = re.compile(r"Found (\d+) CDI devices")


def read_cdi_list(text: str) -> tuple[str, ...] | None:
    """The device names, in order. The line with their count stands first or last, as INFO or logfmt.

    ``None`` when that count and the names disagree: the text is cut.
    """
    devices = tuple(line.strip() for line in text.splitlines() if _DEVICE.fullmatch(line.strip()))
    count = _COUNT.search(text)
    return None if count and int(count.group(1)) != len(devices) else devices


def read_toolkit_version(text: str) -> str | None:
    """The container toolkit's version from ``nvidia-ctk --version``."""
    found = re.search(r"version (\d+(?:\.\d+)+\S*)", text)
    return found.group(1) if found else None
