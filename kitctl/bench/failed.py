"""Which requests failed, of what kind, and are they too many?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kitctl.bench.answers import Record

ERROR_SHARE = 0.01
"""Figures over requests of which more failed are not to be believed."""
_LONGEST = 200


def failed_kinds(errors: Iterable[str | None]) -> dict[str, int]:
    """How many requests failed of each kind (``Record.error``); empty when none did."""
    return dict(Counter(error for error in errors if error is not None))


def too_many_failed(kinds: Mapping[str, int], asked: int, *, share: float = ERROR_SHARE) -> str | None:
    """Why figures over ``asked`` requests must not be believed; ``None`` up to ``share`` of failures."""
    failed = sum(kinds.values())
    if failed <= share * asked:
        return None
    return f"errors: {failed} of {asked} requests failed ({kinds_text(kinds)})"


def kinds_text(kinds: Mapping[str, int]) -> str:
    """``http-500 x3, timeout x1``."""
    return ", ".join(f"{kind} x{count}" for kind, count in kinds.items())


def failure_lines(records: Sequence[Record]) -> tuple[str, ...]:
    """One line a kind of failure, with what the first of it was told."""
    first: dict[str, Record] = {}
    for record in records:
        if record.error is not None:
            first.setdefault(record.error, record)
    counts = failed_kinds(record.error for record in records)
    return tuple(f"{kind} x{counts[kind]}: {_short(record.detail)}" for kind, record in first.items())


def _short(detail: str) -> str:
    return " ".join(detail.split())[:_LONGEST]
