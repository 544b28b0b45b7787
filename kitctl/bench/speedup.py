"""Up to which concurrency does speculation pay? S(C) = tau / rho(C), fitted from measured points.

tau: tokens a verify step brings; it does not depend on the concurrency. rho: what a step with drafter costs, in plain
decode steps; it grows with it, since a verify step works on a whole block for every stream. rho(C) = tau / S(C) at each
measured point, log rho = a + b log C between and beyond them. Speculation pays while rho(C) < tau.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import msgspec

from kitctl.bench.points import Point
from kitctl.bench.statistics import percentile

RESAMPLES = 2000
BEYOND = 4.0


class SpeedPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One concurrency: throughput with over without drafter, and the cost of a step. ``rho`` is also the tau that
    would just break even here."""

    concurrency: int
    speedup: float
    speedup_interval: tuple[float, float]
    rho: float


class SpeedModel(msgspec.Struct, frozen=True, kw_only=True):
    """The fitted model. ``crossover``: the concurrency at which speculation stops paying; ``None`` when it lies
    beyond four times the highest measured one (``pays`` is then ``always``) or below 1 (``never``)."""

    tau: float
    points: tuple[SpeedPoint, ...]
    intercept: float
    slope: float
    crossover: float | None
    crossover_interval: tuple[float | None, float | None]
    pays: str


def fit_speedup(plain: Sequence[Point], drafted: Sequence[Point], *, tau: float) -> SpeedModel | None:
    """Fit from two sweeps of the same settings; ``None`` without two valid concurrencies that both have."""
    pairs = _pairs(plain, drafted)
    if len(pairs) < 2:
        return None
    points = tuple(_speed_point(c, a, b, tau) for c, a, b in pairs)
    intercept, slope = _fit([(point.concurrency, point.rho) for point in points])
    most = BEYOND * points[-1].concurrency
    drawn = sorted(_draw_crossings(points, tau, most))
    crossing = _crossing(intercept, slope, tau, most)
    return SpeedModel(
        tau=tau,
        points=points,
        intercept=intercept,
        slope=slope,
        crossover=crossing if 1 <= crossing < most else None,
        crossover_interval=(_known(percentile(drawn, 0.025), most), _known(percentile(drawn, 0.975), most)),
        pays="never" if crossing < 1 else "always" if crossing >= most else "below",
    )


def shared_concurrencies(plain: Sequence[Point], drafted: Sequence[Point]) -> tuple[int, ...]:
    """The concurrencies that the fit can go by: valid in both sweeps."""
    return tuple(concurrency for concurrency, _, _ in _pairs(plain, drafted))


def _pairs(plain: Sequence[Point], drafted: Sequence[Point]) -> list[tuple[int, Point, Point]]:
    other = {point.concurrency: point for point in drafted if _usable(point)}
    found = [
        (point.concurrency, point, other[point.concurrency])
        for point in plain
        if point.concurrency is not None and _usable(point) and point.concurrency in other
    ]
    return sorted(found, key=lambda pair: pair[0])


def _usable(point: Point) -> bool:
    return point.valid and point.output_tokens_per_s is not None and point.output_tokens_per_s > 0


def _speed_point(concurrency: int, plain: Point, drafted: Point, tau: float) -> SpeedPoint:
    assert plain.output_tokens_per_s is not None
    assert drafted.output_tokens_per_s is not None
    speedup = drafted.output_tokens_per_s / plain.output_tokens_per_s
    error = math.hypot(_log_error(plain), _log_error(drafted))
    interval = (speedup * math.exp(-1.96 * error), speedup * math.exp(1.96 * error))
    return SpeedPoint(concurrency=concurrency, speedup=speedup, speedup_interval=interval, rho=tau / speedup)


def _log_error(point: Point) -> float:
    interval, rate = point.output_tokens_per_s_interval, point.output_tokens_per_s
    return (interval[1] - interval[0]) / 2 / 1.96 / rate if interval and rate else 0.0


def _fit(pairs: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Least squares of log rho over log C."""
    xs = [math.log(concurrency) for concurrency, _ in pairs]
    ys = [math.log(rho) for _, rho in pairs]
    middle_x, middle_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - middle_x) ** 2 for x in xs)
    slope = sum((x - middle_x) * (y - middle_y) for x, y in zip(xs, ys, strict=True)) / spread
    return middle_y - slope * middle_x, slope


def _crossing(intercept: float, slope: float, tau: float, most: float) -> float:
    """Where rho reaches tau: 0 when it is above from the start, ``most`` when it stays below."""
    if slope <= 0:
        return 0.0 if intercept > math.log(tau) else most
    place = (math.log(tau) - intercept) / slope
    return min(most, math.exp(min(place, 50.0)))


def _known(crossing: float, most: float) -> float | None:
    return crossing if 1 <= crossing < most else None


def _draw_crossings(points: Sequence[SpeedPoint], tau: float, most: float) -> list[float]:
    """Crossings under the uncertainty of every speed-up; tau's own does not move them, since there S = 1."""
    rng = random.Random(len(points))
    crossings = []
    for _ in range(RESAMPLES):
        pairs = []
        for point in points:
            low, high = point.speedup_interval
            spread = math.log(high / low) / 2 / 1.96
            pairs.append((point.concurrency, tau / (point.speedup * math.exp(rng.gauss(0, spread)))))
        intercept, slope = _fit(pairs)
        crossings.append(_crossing(intercept, slope, tau, most))
    return crossings


def predict_from_plain(plain: Mapping[int, float], *, tau: float, block: int) -> dict[int, float]:
    """Speed-ups to expect, from a sweep without drafter alone: S(C) = tau T(C) / T(block C), T(C) = C / rate(C).

    A verify step over ``block`` tokens of C streams is taken to cost what a decode step of block x C streams costs, and
    drafting to cost nothing. Too good without CUDA graphs, too bad at saturation; only where block x C was measured.
    """
    steps = {c: c / rate for c, rate in plain.items() if rate > 0}
    found = {}
    for concurrency, step_s in sorted(steps.items()):
        wide = _between(steps, concurrency * block)
        if wide is not None:
            found[concurrency] = tau * step_s / wide
    return found


def _between(steps: Mapping[int, float], place: int) -> float | None:
    below = [c for c in steps if c <= place]
    above = [c for c in steps if c >= place]
    if not below or not above:
        return None
    low, high = max(below), min(above)
    if low == high:
        return steps[low]
    share = (place - low) / (high - low)
    return steps[low] * (1 - share) + steps[high] * share


def model_lines(model: SpeedModel) -> tuple[str, ...]:
    """The model for a person."""
    rows = [
        f"C={point.concurrency}: {point.speedup:.2f}x "
        f"({point.speedup_interval[0]:.2f}-{point.speedup_interval[1]:.2f}), "
        f"a step costs {point.rho:.2f} plain steps, which is the accept length that would break even"
        for point in model.points
    ]
    low, high = model.crossover_interval
    least = "1" if low is None else f"{low:.0f}"
    spread = f"{least} to {'beyond the measured range' if high is None else f'{high:.0f}'}"
    verdict = {
        "never": f"with {model.tau:.2f} tokens a step speculation pays at no concurrency",
        "always": f"with {model.tau:.2f} tokens a step speculation pays at every measured concurrency",
        "below": f"with {model.tau:.2f} tokens a step speculation pays below C={model.crossover or 0:.0f} ({spread})",
    }[model.pays]
    return (*rows, verdict)
