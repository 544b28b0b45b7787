"""Intervals cover what they claim, bins are fine enough, percentiles are the usual ones."""

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitctl.bench.statistics import bin_of, interval_of, spread_of, spread_of_bins


def test_percentiles() -> None:
    found = spread_of([float(n) for n in range(1, 102)])
    assert found is not None
    assert (found.mean, found.p50, found.p90, found.p99, found.max) == (51, 51, 91, 100, 101)


@given(st.lists(st.floats(min_value=0.01, max_value=1e5), min_size=1, max_size=50))
def test_bins_lose_less_than_half_a_percent(values: list[float]) -> None:
    bins: dict[int, float] = {}
    for value in values:
        bins[bin_of(value)] = bins.get(bin_of(value), 0) + 1
    exact, binned = spread_of(values), spread_of_bins(bins)
    assert exact is not None
    assert binned is not None
    assert binned.mean == pytest.approx(exact.mean, rel=0.005)
    assert binned.max == pytest.approx(exact.max, rel=0.005)


@pytest.mark.parametrize("between", [0.0, 2.0])
def test_interval_covers_the_truth(between: float) -> None:
    """Three repeats of 30 values, with and without drift between repeats: at least 90 of 100 intervals hold it."""
    rng = random.Random(5)
    held = 0
    for trial in range(200):
        groups = []
        for _ in range(3):
            middle = rng.gauss(100, between)
            groups.append([rng.gauss(middle, 5) for _ in range(30)])
        found = interval_of(groups, seed=trial, resamples=200)
        assert found is not None
        held += found[0] <= 100 <= found[1]
    assert held >= 180


def test_interval_of_one_repeat_knows_its_own_noise_only() -> None:
    values = [1.0, 2.0, 3.0, 4.0] * 10
    found = interval_of([values])
    assert found is not None
    error = statistics.stdev(values) / len(values) ** 0.5
    assert found[1] - found[0] == pytest.approx(2 * 1.96 * error, rel=0.15)


def test_nothing_to_say() -> None:
    assert spread_of([]) is None
    assert spread_of_bins({}) is None
    assert interval_of([[1.0]]) is None
