"""Can the figures of a result file be what was measured? Rates, times and counts, looked at before they are used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec

LEAST, MOST = 1e-9, 1e12
_Count = Annotated[int, msgspec.Meta(ge=0, lt=int(MOST))]
_PERCENTILES = ("p50", "p90", "p95", "p99", "max")
_UNBOUND = frozenset({"seed", "client", "health", "gpu", "server", "server_counter_difference", "late_ms"})


class _Phase(msgspec.Struct, frozen=True, kw_only=True):
    """One phase of a start, as far as the page draws it."""

    name: str
    seconds: Annotated[float, msgspec.Meta(ge=0, lt=MOST)]


class _Taken(msgspec.Struct, frozen=True, kw_only=True):
    histogram: tuple[_Count, ...]


class _Acceptance(msgspec.Struct, frozen=True, kw_only=True):
    points: tuple[_Taken, ...] = ()


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    correct: bool


class _Score(msgspec.Struct, frozen=True, kw_only=True):
    asked: _Count
    correct: _Count
    share: Annotated[float, msgspec.Meta(ge=0, le=1)]


class _Dataset(msgspec.Struct, frozen=True, kw_only=True):
    sha256: str | None


class _Quality(msgspec.Struct, frozen=True, kw_only=True):
    """What is used of an earlier result of kitctl quality."""

    dataset: _Dataset
    score: _Score
    answers: tuple[_Answer, ...]
    output_tokens: _Count | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, lt=MOST)] | None = None
    failed: _Count = 0
    failed_kinds: dict[str, _Count] = {}


def wrong_acceptance(tree: Mapping[str, Any]) -> str | None:
    """What is wrong with the part of a result of kitctl accept that the page draws."""
    return _unlike(tree, _Acceptance)


def wrong_phases(run_record: Mapping[str, Any] | None) -> str | None:
    """What is wrong with the phases of a head's run record."""
    wrong = _unlike((run_record or {}).get("phases") or [], tuple[_Phase, ...])
    return f"run_record.phases: {wrong}" if wrong else None


def wrong_quality(tree: Mapping[str, Any]) -> str | None:
    """What is wrong with what a later result of kitctl quality is compared with: the answers, and what counts them."""
    wrong = _unlike(tree, _Quality)
    if wrong is not None:
        return wrong
    found = msgspec.convert(tree, _Quality)
    counted = {
        "score.asked": (found.score.asked, len(found.answers)),
        "score.correct": (found.score.correct, sum(answer.correct for answer in found.answers)),
        "failed": (found.failed, sum(found.failed_kinds.values())),
    }
    return next(
        (f"{key} is {said}, and {told} are told" for key, (said, told) in counted.items() if said != told),
        None,
    )


def _unlike(tree: Any, kind: Any) -> str | None:
    try:
        msgspec.convert(tree, kind)
    except msgspec.ValidationError as wrong:
        return str(wrong)
    return None


def wrong_figure(line: Mapping[str, Any]) -> str | None:
    """What is wrong with a line of a point or a repeat, with its key; ``None`` when nothing is.

    Figures are finite, 0 or from 1e-9 to 1e12; only the ends of an interval may lie below 0. No more requests failed
    or were answered than were sent, an interval's ends and a spread's percentiles rise.
    """
    if line.get("concurrency") is None and line.get("request_rate") is None:
        return "it has neither concurrency nor request_rate"
    for key in ("concurrency", "request_rate"):
        if line.get(key) == 0:
            return f"{key} is 0"
    wrong = next(
        (f"{key} is {_shown(value)}" for key, value in _figures(line) if _is_wrong(key, value)), None
    )
    return wrong or _too_many(line) or _disorder(line)


def _too_many(line: Mapping[str, Any]) -> str | None:
    """A count of requests above that of all requests."""
    asked = line.get("requests")
    for key in ("errors", "answered", "completed"):
        count = line.get(key)
        if isinstance(asked, int) and isinstance(count, int) and count > asked:
            return f"{key} is {count} of {asked} requests"
    return None


def _disorder(line: Mapping[str, Any]) -> str | None:
    """An interval or a spread whose numbers do not rise."""
    for key, value in line.items():
        if isinstance(value, Mapping) and key not in _UNBOUND:
            value = [value[name] for name in _PERCENTILES if isinstance(value.get(name), int | float)]
        elif not key.endswith("_interval") or not isinstance(value, list):
            continue
        if value != sorted(value):
            return f"{key} does not rise: {', '.join(map(_shown, value))}"
    return None


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
