"""The fitted model gives back the law that planted the points, with an interval that holds the truth."""

import math

import pytest

from kitctl.bench.points import Point
from kitctl.bench.speedup import fit_speedup, model_lines, predict_from_plain


def point(concurrency: int, rate: float, *, share: float = 0.01, valid: bool = True) -> Point:
    return Point(
        concurrency=concurrency,
        output_tokens_per_s=rate,
        output_tokens_per_s_interval=(rate * (1 - share), rate * (1 + share)),
        ttft_ms=None,
        tpot_ms=None,
        requests=1,
        errors=0,
        valid=valid,
        invalid_reasons=(),
    )


def planted(
    a: float, b: float, tau: float, places: tuple[int, ...] = (1, 8, 32, 128)
) -> tuple[list[Point], list[Point]]:
    plain = [point(c, 50.0 * c**0.7) for c in places]
    drafted = [point(c, 50.0 * c**0.7 * tau / math.exp(a + b * math.log(c))) for c in places]
    return plain, drafted


def test_planted_law_is_found() -> None:
    """rho = 2 C^0.2, tau = 3.8: crossover at 1.9^5 = 24.8."""
    plain, drafted = planted(math.log(2), 0.2, 3.8)
    model = fit_speedup(plain, drafted, tau=3.8)
    assert model is not None
    assert [p.speedup for p in model.points] == pytest.approx(
        [1.9, 1.9 / 8**0.2, 1.9 / 32**0.2, 1.9 / 128**0.2]
    )
    assert [p.rho for p in model.points] == pytest.approx([2, 2 * 8**0.2, 2 * 32**0.2, 2 * 128**0.2])
    assert model.crossover == pytest.approx(1.9**5)
    low, high = model.crossover_interval
    assert low is not None and high is not None
    assert low < 1.9**5 < high
    assert model_lines(model)[-1].startswith("with 3.80 tokens a step speculation pays below C=25 (2")


def test_drafter_that_never_pays() -> None:
    model = fit_speedup(*planted(math.log(4), 0.1, 2.0), tau=2.0)
    assert model is not None
    assert (model.pays, model.crossover) == ("never", None)


def test_drafter_that_always_pays() -> None:
    model = fit_speedup(*planted(math.log(1.5), 0.01, 4.0), tau=4.0)
    assert model is not None
    assert (model.pays, model.crossover, model.crossover_interval[1]) == ("always", None, None)


def test_only_valid_points_that_both_sweeps_have() -> None:
    plain, drafted = planted(math.log(2), 0.2, 3.8)
    drafted[1] = point(8, 1.0, valid=False)
    model = fit_speedup(plain, drafted[:3], tau=3.8)
    assert model is not None
    assert [p.concurrency for p in model.points] == [1, 32]
    assert fit_speedup(plain, drafted[:2], tau=3.8) is None


def test_prediction_from_a_plain_sweep_alone() -> None:
    """Step times of the reference case's ep8 stack; predicted 2.5 at C=1 and 1.1 at C=32 for tau 3.8, block 8."""
    plain = {1: 65.2, 32: 624.1, 64: 935.6, 128: 1416.9, 192: 1441.9, 256: 1492.5}
    found = predict_from_plain(plain, tau=3.8, block=8)
    assert set(found) == {1, 32}
    assert found[32] == pytest.approx(3.8 * (32 / 624.1) / (256 / 1492.5))
    assert found[1] == pytest.approx(2.5, abs=0.05)
