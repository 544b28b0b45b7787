"""JSON that others wrote: text nested deeper than the reader can follow is a bad file like any other garbage."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_TOO_DEEP = "it is nested too deeply"


def parse_json(text: str | bytes) -> Any:
    """The tree in ``text``. Raises json.JSONDecodeError, also for a tree too deep or a number too long to read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise json.JSONDecodeError(_TOO_DEEP, "", 0) from None
    except json.JSONDecodeError:
        raise
    except ValueError as broken:
        raise json.JSONDecodeError(str(broken), "", 0) from broken


def decode_json(text: str | bytes | msgspec.Raw, kind: type[T]) -> T:
    """``text`` as a ``kind``. Raises msgspec.DecodeError, also for one that is nested too deeply."""
    try:
        return msgspec.json.decode(text, type=kind)
    except RecursionError:
        raise msgspec.DecodeError(_TOO_DEEP) from None
