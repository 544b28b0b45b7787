"""Which configuration is faster, at which load, and is the difference more than noise?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from kitctl.bench.points import Point
from kitctl.bench.results import ResultFile
from kitctl.finding import Finding, Severity


class Metric(StrEnum):
    """What is compared: throughput (more is better), or a latency (less is better)."""

    THROUGHPUT = "throughput"
    TTFT = "ttft"
    TPOT = "tpot"


class Verdict(StrEnum):
    """``better`` and ``worse`` only when the 95 % interval of the change leaves out no change at all."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    UNKNOWN = "unknown"


Load = tuple[int | None, float | None]
MOST_ERROR = 50.0


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One result against the baseline at one load. ``change`` is relative; no interval when either has none."""

    label: str
    baseline: str
    metric: Metric
    concurrency: int | None
    request_rate: float | None
    base_value: float
    value: float
    change: float
    change_interval: tuple[float, float] | None
    verdict: Verdict


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """The fastest from one concurrency to another; ``rivals`` are not surely slower there."""

    first: int
    last: int
    winner: str
    rivals: tuple[str, ...]


def loads_of(results: Sequence[ResultFile]) -> tuple[Load, ...]:
    """All loads of all results, concurrencies first, ascending."""
    found = {(point.concurrency, point.request_rate) for result in results for point in result.points}
    return tuple(sorted(found, key=lambda load: (load[0] is None, load[0] or 0, load[1] or 0.0)))


def point_at(result: ResultFile, load: Load) -> Point | None:
    """A result's point at a load."""
    return next((p for p in result.points if (p.concurrency, p.request_rate) == load), None)


def value_of(point: Point, metric: Metric) -> tuple[float | None, tuple[float, float] | None]:
    """A metric's value and interval; latencies by their means."""
    if metric is Metric.THROUGHPUT:
        return point.output_tokens_per_s, point.output_tokens_per_s_interval
    if metric is Metric.TTFT:
        return point.ttft_ms.mean if point.ttft_ms else None, point.ttft_ms_interval
    return point.tpot_ms.mean if point.tpot_ms else None, point.tpot_ms_interval


def differences(
    results: Sequence[ResultFile], metrics: Sequence[Metric] = tuple(Metric)
) -> tuple[Difference, ...]:
    """Every later result against the first, wherever both have a valid point."""
    base, *others = results
    found = []
    for other in others:
        for load in loads_of([base, other]):
            for metric in metrics:
                difference = _difference(base, other, load, metric)
                if difference is not None:
                    found.append(difference)
    return tuple(found)


def _difference(base: ResultFile, other: ResultFile, load: Load, metric: Metric) -> Difference | None:
    left, right = point_at(base, load), point_at(other, load)
    if left is None or right is None or not left.valid or not right.valid:
        return None
    (old, old_interval), (new, new_interval) = value_of(left, metric), value_of(right, metric)
    if not old or not new:
        return None
    interval = None
    if old_interval is not None and new_interval is not None:
        error = math.hypot(_half_width(old_interval) / old, _half_width(new_interval) / new)
        error = min(error, MOST_ERROR)
        ratio = new / old
        interval = (ratio * math.exp(-error) - 1, ratio * math.exp(error) - 1)
    return Difference(
        label=other.head.label,
        baseline=base.head.label,
        metric=metric,
        concurrency=load[0],
        request_rate=load[1],
        base_value=old,
        value=new,
        change=new / old - 1,
        change_interval=interval,
        verdict=_verdict(interval, metric),
    )


def _half_width(interval: tuple[float, float]) -> float:
    return (interval[1] - interval[0]) / 2


def _verdict(interval: tuple[float, float] | None, metric: Metric) -> Verdict:
    if interval is None:
        return Verdict.UNKNOWN
    if interval[0] <= 0 <= interval[1]:
        return Verdict.SAME
    more_is_better = metric is Metric.THROUGHPUT
    return Verdict.BETTER if (interval[0] > 0) == more_is_better else Verdict.WORSE


def regressions(
    found: Sequence[Difference], *, limit: float, metrics: Sequence[Metric]
) -> tuple[Difference, ...]:
    """The differences that fail a gate: worse by more than ``limit``, and worse for sure (interval excludes 0)."""
    return tuple(
        difference
        for difference in found
        if difference.metric in metrics
        and difference.verdict is Verdict.WORSE
        and abs(difference.change) > limit
    )


def winners(results: Sequence[ResultFile]) -> tuple[Band, ...]:
    """The fastest by output tokens per second, neighbouring concurrencies of the same outcome joined."""
    bands: list[Band] = []
    for concurrency, rate in loads_of(results):
        if concurrency is None or rate is not None:
            continue
        best = _best(results, concurrency)
        if best is None:
            continue
        winner, rivals = best
        if bands and (bands[-1].winner, bands[-1].rivals) == (winner, rivals):
            bands[-1] = msgspec.structs.replace(bands[-1], last=concurrency)
        else:
            bands.append(Band(first=concurrency, last=concurrency, winner=winner, rivals=rivals))
    return tuple(bands)


def _best(results: Sequence[ResultFile], concurrency: int) -> tuple[str, tuple[str, ...]] | None:
    points = [
        (point.output_tokens_per_s, point, result.head.label)
        for result in results
        if (point := point_at(result, (concurrency, None))) is not None
        and point.valid
        and point.output_tokens_per_s is not None
    ]
    if len(points) < 2:
        return None
    points.sort(key=lambda entry: -entry[0])
    (_, first, winner), *others = points
    return winner, tuple(label for _, point, label in others if _may_equal(first, point))


def _may_equal(best: Point, other: Point) -> bool:
    left, right = best.output_tokens_per_s_interval, other.output_tokens_per_s_interval
    return left is not None and right is not None and right[1] >= left[0]


def comparability(results: Sequence[ResultFile]) -> tuple[Finding, ...]:
    """What makes results incomparable: another load, another set of prompts, other lengths, sampling or endpoint."""
    base, *others = results
    findings = []
    for other in others:
        if base.head.spec is None or other.head.spec is None:
            continue
        fields = (
            "dataset", "dataset_sha256", "input_tokens", "output_tokens", "ignore_eos", "temperature", "endpoint",
        )  # fmt: skip
        pairs = [(f, getattr(base.head.spec, f), getattr(other.head.spec, f)) for f in fields]
        seen = tuple(f"{field}: {left} and {right}" for field, left, right in pairs if left != right)
        if seen:
            findings.append(
                Finding(
                    code="other-load",
                    severity=Severity.WARN,
                    cause=f"{base.head.label} and {other.head.label} were measured under different loads",
                    evidence=seen,
                    remedy="measure both with the same options of kitctl bench",
                )
            )
    return tuple(findings)


def comparison_data(
    results: Sequence[ResultFile],
    found: Sequence[Difference],
    notes: Sequence[Finding],
    gate: Mapping[str, Any],
) -> dict[str, Any]:
    """The versioned object that ``kitctl compare --json`` prints. ``gate``: what ``gate_data`` makes."""
    return {
        "schema": "kitctl.compare/1",
        "results": [
            {"label": r.head.label, "kind": r.head.kind, "points": msgspec.to_builtins(r.points)}
            for r in results
        ],
        "differences": msgspec.to_builtins(found),
        "winners": msgspec.to_builtins(winners(results)),
        "notes": msgspec.to_builtins(notes),
        "gate": gate,
    }
