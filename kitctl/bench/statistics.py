"""What do the samples say, and how sure are they? Percentiles, histograms of fine bins, bootstrap intervals."""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

import msgspec

RESAMPLES = 400
BIN_RATIO = 1.005
_T_975 = (0.0, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
_Z_975 = 1.960


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution in milliseconds."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float | None = None


def percentile(ordered: Sequence[float], share: float) -> float:
    """The ``share`` quantile of sorted values, linear between neighbours."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def spread_of(values: Sequence[float]) -> Spread | None:
    """Mean, percentiles and maximum; ``None`` without values."""
    if not values:
        return None
    ordered = sorted(values)
    p50, p90, p95, p99 = (percentile(ordered, share) for share in (0.5, 0.9, 0.95, 0.99))
    mean = math.fsum(ordered) / len(ordered)
    return Spread(mean=mean, p50=p50, p90=p90, p95=p95, p99=p99, max=ordered[-1])


def bin_of(value_ms: float) -> int:
    """The number of the 0.5 % wide bin that holds a positive value; zero and less share the lowest."""
    return round(math.log(max(value_ms, 1e-4)) / math.log(BIN_RATIO))


def spread_of_bins(bins: Mapping[int, float]) -> Spread | None:
    """The distribution of binned values, weighted by their counts; exact to half a bin."""
    total = math.fsum(bins.values())
    if total <= 0:
        return None
    order = sorted(bins)
    ends: list[float] = []
    for number in order:
        ends.append((ends[-1] if ends else 0.0) + bins[number])
    p50, p90, p95, p99 = (
        BIN_RATIO ** order[min(bisect_left(ends, share * total), len(order) - 1)]
        for share in (0.5, 0.9, 0.95, 0.99)
    )
    mean = math.fsum(BIN_RATIO**number * bins[number] for number in order) / total
    return Spread(mean=mean, p50=p50, p90=p90, p95=p95, p99=p99, max=BIN_RATIO ** order[-1])


def t_quantile(repeats: int) -> float:
    """Student's 97.5 % quantile for the mean of ``repeats`` values (normal above eleven)."""
    degrees = repeats - 1
    return _T_975[degrees] if 0 < degrees < len(_T_975) else _Z_975


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean."""
    return math.fsum(values) / len(values)


def interval_of(
    groups: Sequence[Sequence[float]],
    statistic: Callable[[Sequence[float]], float] = mean,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> tuple[float, float] | None:
    """A 95 % interval of the mean over groups (repeats) of ``statistic`` within each.

    Two-stage bootstrap: groups are drawn with replacement, then values within each drawn group. With few groups
    its spread is too narrow, so it is widened by Student's quantile over the normal one and by sqrt(n / (n - 1)).
    One group: the interval knows only the noise inside that repeat. ``None`` without two values.
    """
    filled = [group for group in groups if group]
    if sum(len(group) for group in filled) < 2:
        return None
    rng = random.Random(seed)
    middle = mean([statistic(group) for group in filled])
    drawn = []
    for _ in range(resamples):
        picked = rng.choices(filled, k=len(filled)) if len(filled) > 1 else filled
        drawn.append(mean([statistic(rng.choices(group, k=len(group))) for group in picked]))
    drawn.sort()
    widen = _widening(len(filled))
    low, high = percentile(drawn, 0.025), percentile(drawn, 0.975)
    least = middle - (middle - low) * widen
    return max(0.0, least) if low > 0 else least, middle + (high - middle) * widen


def _widening(groups: int) -> float:
    if groups < 2:
        return 1.0
    return t_quantile(groups) / _Z_975 * math.sqrt(groups / (groups - 1))
