"""Only differences beyond noise are called so, and only real regressions fail the gate."""

import random
import statistics

import msgspec
import pytest
from planted import planted_result

from kitctl.bench.compare import Band, Metric, Verdict, comparability, differences, regressions, winners
from kitctl.bench.points import Point
from kitctl.bench.results import ResultFile
from kitctl.bench.workload import Endpoint, Spec

BASE = planted_result("base", {1: 100, 8: 700})


@pytest.mark.parametrize(
    ("rates", "error", "verdicts"),
    [
        ({1: 110, 8: 770}, 0.01, [Verdict.BETTER, Verdict.BETTER]),
        ({1: 90, 8: 701}, 0.01, [Verdict.WORSE, Verdict.SAME]),
        ({1: 90, 8: 630}, 0.2, [Verdict.SAME, Verdict.SAME]),
    ],
)
def test_verdicts(rates: dict[int, float], error: float, verdicts: list[Verdict]) -> None:
    found = differences([BASE, planted_result("new", rates, error=error)], [Metric.THROUGHPUT])
    assert [difference.verdict for difference in found] == verdicts
    assert found[0].change == pytest.approx(rates[1] / 100 - 1)


@pytest.mark.parametrize(
    ("share", "error", "fails"),
    [(0.90, 0.01, True), (0.97, 0.01, False), (0.90, 0.20, False), (1.10, 0.01, False), (0.94, 0.03, True)],
    ids=["real", "small", "noise", "faster", "just beyond the gate, surely below"],
)
def test_gate(share: float, error: float, fails: bool) -> None:
    found = differences([BASE, planted_result("new", {1: 100 * share}, error=error)])
    assert bool(regressions(found, limit=0.05, metrics=[Metric.THROUGHPUT])) is fails


def test_gate_on_latency_reads_more_as_worse() -> None:
    slow = planted_result("new", {8: 700})
    point = slow.points[0]
    assert point.ttft_ms is not None
    worse = msgspec.structs.replace(point.ttft_ms, mean=point.ttft_ms.mean * 1.2)
    intervals = {
        left.head.label: (left.points[-1], value)
        for left, value in ((BASE, BASE.points[1].ttft_ms), (slow, worse))
    }
    results = []
    for label, (old, value) in intervals.items():
        assert value is not None
        changed: Point = msgspec.structs.replace(
            old, ttft_ms=value, ttft_ms_interval=(value.mean * 0.99, value.mean * 1.01)
        )
        results.append(ResultFile(head=msgspec.structs.replace(BASE.head, label=label), points=(changed,)))
    (found,) = differences(results, [Metric.TTFT])
    assert found.verdict is Verdict.WORSE
    assert regressions([found], limit=0.05, metrics=[Metric.TTFT]) == (found,)


def test_invalid_points_and_missing_intervals_decide_nothing() -> None:
    bad = msgspec.structs.replace(BASE.points[0], valid=False, invalid_reasons=("errors: x",))
    bare = msgspec.structs.replace(BASE.points[1], output_tokens_per_s=1.0, output_tokens_per_s_interval=None)
    other = ResultFile(head=msgspec.structs.replace(BASE.head, label="new"), points=(bad, bare))
    (found,) = differences([BASE, other], [Metric.THROUGHPUT])
    assert (found.concurrency, found.verdict) == (8, Verdict.UNKNOWN)
    assert regressions([found], limit=0.05, metrics=[Metric.THROUGHPUT]) == ()


def test_noise_alone_hardly_ever_fails_the_gate() -> None:
    """300 pairs of equal servers with 4 % noise between repeats, three repeats each, gate 5 %."""
    from kitctl.bench.statistics import interval_of

    rng = random.Random(11)

    def measured(label: str) -> ResultFile:
        groups = []
        for _ in range(3):
            middle = rng.gauss(100, 4)
            groups.append([rng.gauss(middle, 5) for _ in range(16)])
        mean = statistics.mean(map(statistics.mean, groups))
        found = interval_of(groups, resamples=150)
        result = planted_result(label, {1: mean})
        point = msgspec.structs.replace(result.points[0], output_tokens_per_s_interval=found)
        return ResultFile(head=result.head, points=(point,))

    alarms = sum(
        bool(
            regressions(differences([measured("a"), measured("b")]), limit=0.05, metrics=[Metric.THROUGHPUT])
        )
        for _ in range(300)
    )
    assert alarms <= 9


def test_winners_in_bands() -> None:
    fast_alone = planted_result("drafter", {1: 130, 8: 710, 32: 900, 64: 950})
    wide = planted_result("plain", {1: 100, 8: 705, 32: 1200, 64: 1500})
    assert winners([fast_alone, wide]) == (
        Band(first=1, last=1, winner="drafter", rivals=()),
        Band(first=8, last=8, winner="drafter", rivals=("plain",)),
        Band(first=32, last=64, winner="plain", rivals=()),
    )


def test_other_loads_are_named() -> None:
    spec = Spec(model="m", endpoint=Endpoint.COMPLETIONS, dataset="random")
    real = Spec(model="m", endpoint=Endpoint.CHAT, dataset="kit", input_tokens=None, ignore_eos=False)
    left, right = planted_result("a", {1: 1}, spec=spec), planted_result("b", {1: 1}, spec=real)
    (found,) = comparability([left, right])
    assert found.evidence == (
        "dataset: random and kit",
        "input_tokens: 128 and None",
        "ignore_eos: True and False",
        "endpoint: completions and chat",
    )
    assert comparability([left, left]) == ()
