"""Which stack for which concurrency, by how much, and how sure?

At each concurrency the fastest valid point is compared with every other one. A difference of two rates is taken as
normal in its logarithm, with the width of both 95 % intervals; the chance that any rival is in truth faster is at most
the sum of the chances that each is, and the confidence is what remains of 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kitctl.bench.compare import loads_of, point_at
from kitctl.bench.points import Point
from kitctl.bench.results import ResultFile
from kitctl.kit.campaign import Gates

SURE = 0.95
_Z = 1.96


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The best at one concurrency. ``second``: the next best; ``lead``: its relative distance, with 95 % interval;
    ``confidence``: that no rival is faster, ``None`` when a point has no interval or no rival was measured."""

    concurrency: int
    winner: str
    rate: float
    second: str | None = None
    lead: float | None = None
    lead_interval: tuple[float, float] | None = None
    confidence: float | None = None


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """One stack from one concurrency to another. ``leads`` and ``confidence`` are the smallest in the band."""

    first: int
    last: int
    winner: str
    choices: tuple[Choice, ...]
    lead_least: float | None
    lead_most: float | None
    confidence: float | None

    @property
    def band(self) -> str:
        """``1`` or ``32-128``."""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


def recommend(
    results: Sequence[ResultFile], *, gates: Gates | None = None, excluded: Mapping[str, str] | None = None
) -> tuple[Recommendation, ...]:
    """Bands of neighbouring concurrencies with the same winner. ``excluded``: labels that broke a gate."""
    allowed = [result for result in results if result.head.label not in (excluded or {})]
    choices = [
        choice
        for concurrency, _ in loads_of(allowed)
        if concurrency is not None and (choice := _choose(allowed, concurrency, gates or Gates())) is not None
    ]
    bands: list[list[Choice]] = []
    for choice in choices:
        if bands and bands[-1][-1].winner == choice.winner:
            bands[-1].append(choice)
        else:
            bands.append([choice])
    return tuple(_band(band) for band in bands)


def _choose(results: Sequence[ResultFile], concurrency: int, gates: Gates) -> Choice | None:
    found = [
        (point.output_tokens_per_s, result.head.label, point)
        for result in results
        if (point := point_at(result, (concurrency, None))) is not None
        and point.valid
        and point.output_tokens_per_s
        and keeps_level(point, gates)
    ]
    if not found:
        return None
    found.sort(key=lambda entry: -entry[0])
    (rate, winner, _), *others = found
    if not others:
        return Choice(concurrency=concurrency, winner=winner, rate=rate)
    second_rate, second, _ = others[0]
    errors = [_log_error(point) for _, _, point in found]
    interval, confidence = None, None
    if all(error is not None for error in errors):
        interval = _lead_interval(rate / second_rate, errors[0], errors[1])
        confidence = _confidence(rate, [other[0] for other in others], [error or 0.0 for error in errors])
    return Choice(
        concurrency=concurrency,
        winner=winner,
        rate=rate,
        second=second,
        lead=rate / second_rate - 1,
        lead_interval=interval,
        confidence=confidence,
    )


def keeps_level(point: Point, gates: Gates) -> bool:
    """Whether the point's latencies are within the campaign's service level."""
    ttft = point.ttft_ms.p99 if point.ttft_ms else math.inf
    tpot = point.tpot_ms.p99 if point.tpot_ms else math.inf
    return (gates.ttft_p99_ms is None or ttft <= gates.ttft_p99_ms) and (
        gates.tpot_p99_ms is None or tpot <= gates.tpot_p99_ms
    )


def _log_error(point: Point) -> float | None:
    """The standard error of the rate's logarithm, from its 95 % interval; ``None`` for fewer than two repeats."""
    interval, rate = point.output_tokens_per_s_interval, point.output_tokens_per_s
    if interval is None or not rate or point.repeats < 2:
        return None
    return (interval[1] - interval[0]) / 2 / _Z / rate


def _lead_interval(ratio: float, left: float | None, right: float | None) -> tuple[float, float]:
    width = _Z * math.hypot(left or 0.0, right or 0.0)
    return ratio * math.exp(-width) - 1, ratio * math.exp(width) - 1


def _confidence(rate: float, others: Sequence[float], errors: Sequence[float]) -> float:
    doubt = sum(
        _chance_below(math.log(rate / other), math.hypot(errors[0], error))
        for other, error in zip(others, errors[1:], strict=True)
    )
    return max(0.0, 1.0 - doubt)


def _chance_below(distance: float, error: float) -> float:
    """The chance that a normal value with this mean and spread is below zero."""
    if error <= 0:
        return 0.0 if distance > 0 else 0.5
    return 0.5 * math.erfc(distance / error / math.sqrt(2))


def _band(choices: Sequence[Choice]) -> Recommendation:
    leads = [choice.lead for choice in choices if choice.lead is not None]
    sure = [choice.confidence for choice in choices]
    known = [confidence for confidence in sure if confidence is not None]
    return Recommendation(
        first=choices[0].concurrency,
        last=choices[-1].concurrency,
        winner=choices[0].winner,
        choices=tuple(choices),
        lead_least=min(leads, default=None),
        lead_most=max(leads, default=None),
        confidence=min(known) if known and len(known) == len(sure) else None,
    )


def recommendation_lines(found: Iterable[Recommendation]) -> tuple[str, ...]:
    """Each band in one line."""
    return tuple(recommendation_line(band) for band in found)


def recommendation_line(band: Recommendation) -> str:
    """``C=1: ep4-dflash, 31 % before ep4, sure (0.99)``."""
    where = f"C={band.band}"
    if band.lead_least is None or band.lead_most is None:
        return f"{where}: {band.winner}; nothing else was measured there"
    low, high = round(band.lead_least * 100, 1), round(band.lead_most * 100, 1)
    by = f"{low:g} %" if low == high else f"{low:g} to {high:g} %"
    seconds = list(dict.fromkeys(choice.second for choice in band.choices if choice.second))
    how = sureness(band.confidence)
    return f"{where}: {band.winner}, {by} before {', '.join(seconds)}; {how}"


def sureness(confidence: float | None) -> str:
    """How sure, in words and as a number."""
    if confidence is None:
        return "how sure is not known (fewer than two repeats)"
    if confidence >= SURE:
        return f"sure ({confidence:.3f})"
    return f"not sure ({confidence:.2f}); measure more repeats before you rely on it"
