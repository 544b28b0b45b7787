"""Which known name did the user mean?"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def near_name(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to ``name``, or ``None`` when none is close."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return close[0] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``did you mean 'x'?``, or the list of what exists, each once."""
    names = sorted(set(known))
    near = near_name(name, names)
    return f"did you mean {near!r}?" if near else f"known: {', '.join(names) or 'none'}"
