"""Did a gate see all that it is to judge? What it judged, what failed, and what it could not judge and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kitctl.bench.compare import (
    Difference,
    Load,
    Metric,
    differences,
    loads_of,
    point_at,
    regressions,
    value_of,
)
from kitctl.bench.points import Point
from kitctl.bench.results import ResultFile

MORE_REPEATS = "measure with --repeats 3 (kitctl bench), the baseline too"
SAME_LOADS = "measure every load of the baseline again: kitctl bench with its --concurrency or --rate"


class Unjudged(msgspec.Struct, frozen=True, kw_only=True):
    """A point of the baseline that decides nothing for ``label``; ``fails``: the gate does not pass over it."""

    label: str
    metric: Metric
    concurrency: int | None
    request_rate: float | None
    reason: str
    remedy: str
    fails: bool


@dataclass(frozen=True, kw_only=True)
class Gate:
    """A gate's outcome. ``blind``: the pairs of label and metric for which nothing at all was judged."""

    limit: float
    judged: tuple[Difference, ...]
    failed: tuple[Difference, ...]
    not_judged: tuple[Unjudged, ...]
    blind: tuple[tuple[str, Metric], ...]

    @property
    def passed(self) -> bool:
        """Whether no result is worse, none lacks what the baseline has, and each was judged somewhere."""
        return not (self.failed or self.blind or any(one.fails for one in self.not_judged))


def judge(results: Sequence[ResultFile], *, limit: float, metrics: Sequence[Metric]) -> Gate:
    """Every later result against the first: worse by more than ``limit`` (a share) at a load, or not to be judged."""
    base, *others = results
    found = differences(results, tuple(dict.fromkeys(metrics)))
    judged = tuple(one for one in found if one.change_interval is not None)
    seen = {(one.label, one.metric) for one in judged}
    return Gate(
        limit=limit,
        judged=judged,
        failed=regressions(judged, limit=limit, metrics=metrics),
        not_judged=tuple(_not_judged(base, others, found, limit, metrics)),
        blind=tuple(
            pair
            for other in others
            for metric in dict.fromkeys(metrics)
            if (pair := (other.head.label, metric)) not in seen
        ),
    )


def _not_judged(
    base: ResultFile,
    others: Sequence[ResultFile],
    found: Sequence[Difference],
    limit: float,
    metrics: Sequence[Metric],
) -> Iterable[Unjudged]:
    known = {(one.label, one.metric, one.concurrency, one.request_rate): one for one in found}
    for other in others:
        for load in loads_of([base]):
            for metric in dict.fromkeys(metrics):
                difference = known.get((other.head.label, metric, *load))
                if difference is not None and difference.change_interval is not None:
                    continue
                reason, remedy, fails = (
                    _without_interval(base, other, load, difference, limit)
                    if difference is not None
                    else _without_value(base, other, load, metric)
                )
                yield Unjudged(
                    label=other.head.label, metric=metric, concurrency=load[0], request_rate=load[1],
                    reason=reason, remedy=remedy, fails=fails,
                )  # fmt: skip


def _without_interval(
    base: ResultFile, other: ResultFile, load: Load, difference: Difference, limit: float
) -> tuple[str, str, bool]:
    """Reason, remedy, and whether it fails: only a change beyond the limit for the worse does."""
    bare = [
        (result, point)
        for result in (base, other)
        if (point := point_at(result, load)) is not None and value_of(point, difference.metric)[1] is None
    ]
    reasons: dict[str, list[str]] = {}
    for result, point in bare:
        reasons.setdefault(_no_interval(result, point), []).append(result.head.label)
    worse = -difference.change if difference.metric is Metric.THROUGHPUT else difference.change
    told = "; ".join(f"{reason} ({', '.join(labels)})" for reason, labels in reasons.items())
    reason = f"{told}; the change is {difference.change:+.1%}"
    return reason, MORE_REPEATS, worse > limit


def _no_interval(result: ResultFile, point: Point) -> str:
    if result.head.kind == "published":
        return "published figures have no interval"
    if point.repeats == 1:
        return "one repeat gives no interval"
    return "the point has no interval"


def _without_value(base: ResultFile, other: ResultFile, load: Load, metric: Metric) -> tuple[str, str, bool]:
    """Reason, remedy, and whether it fails: what the baseline itself cannot tell does not."""
    left, right = point_at(base, load), point_at(other, load)
    if left is None or not left.valid:
        return f"the point of the baseline {base.head.label} is invalid", SAME_LOADS, False
    if not value_of(left, metric)[0]:
        return f"the baseline {base.head.label} has no {metric}", SAME_LOADS, False
    if right is None:
        return f"{other.head.label} has no point there", SAME_LOADS, True
    if not right.valid:
        reasons = "; ".join(right.invalid_reasons)
        return f"the point of {other.head.label} is invalid ({reasons})", SAME_LOADS, True
    return f"{other.head.label} has no {metric}", SAME_LOADS, True


def gate_data(gate: Gate | None) -> dict[str, Any]:
    """The ``gate`` object of ``kitctl compare --json``; ``passed`` is null without a gate."""
    if gate is None:
        return {"limit": None, "failed": [], "judged": [], "not_judged": [], "blind": [], "passed": None}
    return {
        "limit": gate.limit,
        "failed": msgspec.to_builtins(gate.failed),
        "judged": [
            {
                "label": d.label,
                "metric": d.metric,
                "concurrency": d.concurrency,
                "request_rate": d.request_rate,
            }
            for d in gate.judged
        ],
        "not_judged": msgspec.to_builtins(gate.not_judged),
        "blind": [{"label": label, "metric": metric} for label, metric in gate.blind],
        "passed": gate.passed,
    }
