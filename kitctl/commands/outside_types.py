"""Command-line values whose form others set: an image's name, a process's end; argparse names the option, exit 2."""

from __future__ import annotations

import argparse
import re

_NAME = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[+._-][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_IMAGE = re.compile(rf"(?:{_HOST}/)?{_NAME}(?:/{_NAME})*(?::\w[\w.-]{{0,127}})?(?:@{_DIGEST})?", re.ASCII)
"""An image reference, or an id (``sha256:...``): the grammar of github.com/distribution/reference."""


def image_reference(text: str) -> str:
    """An image as the container engine names it: NAME, HOST:PORT/NAME:TAG, NAME@sha256:HASH or an id."""
    if not _IMAGE.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no image, as NAME:TAG or NAME@sha256:HASH (lower case)"
        )
    return text


def exit_code(text: str) -> int:
    """How a process ended: its exit code, 0 to 255, or minus the signal that ended it, -1 to -64."""
    number = int(text) if re.fullmatch(r"-?[0-9]{1,3}", text, re.ASCII) else 256
    if not -64 <= number <= 255:
        raise argparse.ArgumentTypeError(f"{text!r} is no exit code: 0 to 255, or -1 to -64 for a signal")
    return number
