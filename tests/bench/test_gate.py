"""A gate that cannot look does not pass, and says what it did not see."""

from typing import Any

import msgspec
import pytest
from planted import planted_result

from kitctl.bench.compare import Metric
from kitctl.bench.gate import Gate, gate_data, judge
from kitctl.bench.results import ResultFile
from kitctl.bench.tables import gate_lines

BASE = planted_result("base", {1: 100, 8: 700})
NEW = planted_result("new", {1: 100, 8: 700})
BARE: dict[str, Any] = {"output_tokens_per_s_interval": None, "repeats": 1}


def judged(base: ResultFile, new: ResultFile) -> Gate:
    return judge([base, new], limit=0.05, metrics=[Metric.THROUGHPUT])


def changed(result: ResultFile, place: int, **fields: Any) -> ResultFile:
    points = list(result.points)
    points[place] = msgspec.structs.replace(points[place], **fields)
    return ResultFile(head=result.head, points=tuple(points))


def without(result: ResultFile, count: int) -> ResultFile:
    return ResultFile(head=result.head, points=result.points[count:])


INVALID = {"valid": False, "invalid_reasons": ("errors: x",)}


@pytest.mark.parametrize(
    ("base", "new", "passes", "words"),
    [
        (BASE, NEW, True, "GATE passed (limit 5.0%): judged at C=1, C=8"),
        (BASE, changed(NEW, 0, output_tokens_per_s=10.0, **BARE), False, "one repeat gives no interval (new)"),
        (BASE, changed(NEW, 0, output_tokens_per_s=98.0, **BARE), True, "the change is -2.0%"),
        (BASE, changed(NEW, 0, output_tokens_per_s=None), False, "new has no throughput"),
        (BASE, changed(NEW, 0, **INVALID), False, "the point of new is invalid (errors: x)"),
        (changed(BASE, 0, **INVALID), NEW, True, "the point of the baseline base is invalid"),
        (BASE, without(NEW, 1), False, "FAILED C=1: new: throughput not judged: new has no point there"),
        (BASE, without(NEW, 2), False, "nothing was judged"),
        (without(BASE, 2), NEW, False, "GATE FAILED new: throughput was judged at no load"),
        (BASE, planted_result("new", {1: 80, 8: 700}), False, "C=1: new against base: throughput -20.0%"),
        (changed(without(BASE, 1), 0, **BARE), NEW, False, "one repeat gives no interval (base)"),
    ],
    ids=["same", "one repeat", "one repeat, small", "no figure", "invalid", "baseline invalid", "missing", "head only",
         "baseline empty", "worse", "baseline of one repeat"],
)  # fmt: skip
def test_gate(base: ResultFile, new: ResultFile, passes: bool, words: str) -> None:
    gate = judged(base, new)
    assert (gate.passed, gate_data(gate)["passed"]) == (passes, passes)
    assert words in "\n".join(gate_lines(gate))


def test_each_metric_is_to_be_judged() -> None:
    gate = judge([BASE, NEW], limit=0.05, metrics=[Metric.THROUGHPUT, Metric.TPOT])
    assert gate.blind == (("new", Metric.TPOT),)
    assert not gate.passed


def test_published_figures_are_not_judged() -> None:
    head = msgspec.structs.replace(BASE.head, kind="published")
    base = ResultFile(head=head, points=changed(without(BASE, 1), 0, **BARE).points)
    (one,) = judged(base, NEW).not_judged
    assert one.reason == "published figures have no interval (base); the change is +0.0%"
