"""Can the figures of a result file be what was measured? Rates, times and counts, looked at before they are used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec

LEAST, MOST = 1e-9, 1e12
_UNBOUND = frozenset({"seed", "client", "health", "gpu", "server", "server_counter_difference", "late_ms"})


class _Phase(msgspec.Struct, frozen=True, kw_only=True):
    """One phase of a start, as far as the page draws it."""

    name: str
    seconds: Annotated[float, msgspec.Meta(ge=0, lt=MOST)]


class _Taken(msgspec.Struct, frozen=True, kw_only=True):
    histogram: tuple[Annotated[int, msgspec.Meta(ge=0, lt=int(MOST))], ...]


class _Acceptance(msgspec.Struct, frozen=True, kw_only=True):
    points: tuple[_Taken, ...] = ()


def wrong_acceptance(tree: Mapping[str, Any]) -> str | None:
    """What is wrong with the part of a result of kitctl accept that the page draws."""
    return _unlike(tree, _Acceptance)


def wrong_phases(run_record: Mapping[str, Any] | None) -> str | None:
    """What is wrong with the phases of a head's run record."""
    return _unlike((run_record or {}).get("phases") or [], tuple[_Phase, ...])


def _unlike(tree: Any, kind: Any) -> str | None:
    try:
        msgspec.convert(tree, kind)
    except msgspec.ValidationError as wrong:
        return str(wrong)
    return None


def wrong_figure(line: Mapping[str, Any]) -> str | None:
    """What is wrong with a line of a point or a repeat, with its key; ``None`` when nothing is.

    Figures are finite, 0 or from 1e-9 to 1e12; only the ends of an interval may lie below 0.
    """
    if line.get("concurrency") is None and line.get("request_rate") is None:
        return "it has neither concurrency nor request_rate"
    for key in ("concurrency", "request_rate"):
        if line.get(key) == 0:
            return f"{key} is 0"
    return next((f"{key} is {_shown(value)}" for key, value in _figures(line) if _is_wrong(key, value)), None)


def wrong_import(entry: Mapping[str, Any]) -> str | None:
    """The same of a line of bench_serving, whose request rate is infinite in a closed loop."""
    for key, value in entry.items():
        is_figure = key.endswith(("_throughput", "_ms")) or key in (
            "max_concurrency",
            "completed",
            "accept_length",
        )
        if is_figure and isinstance(value, int | float) and _is_wrong(key, value):
            return f"{key} is {_shown(value)}"
    rate = entry.get("request_rate")
    if isinstance(rate, int | float) and not rate > 0:
        return f"request_rate is {_shown(rate)}"
    return "max_concurrency is 0" if entry.get("max_concurrency") == 0 else None


def _figures(tree: Any, key: str = "") -> Iterable[tuple[str, float]]:
    if isinstance(tree, Mapping):
        for name, below in tree.items():
            if key or name not in _UNBOUND:
                yield from _figures(below, f"{key}.{name}" if key else str(name))
    elif isinstance(tree, list):
        for below in tree:
            yield from _figures(below, key)
    elif isinstance(tree, int | float) and not isinstance(tree, bool):
        yield key, tree


def _shown(value: float) -> str:
    text = repr(value)
    return text if len(text) <= 24 else f"{text[:12]}... ({len(text)} characters)"


def _is_wrong(key: str, value: float) -> bool:
    size = abs(value) if key.endswith("_interval") else value
    return not (size == 0 or LEAST <= size < MOST)
