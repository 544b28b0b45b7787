"""Result files survive an interrupt in the middle of a line, and are read back as they were written."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from planted import GOOD, planted_result

from kitctl.bench.results import (
    Head,
    line_of,
    missing_steps,
    named_apart,
    pick_settings,
    read_results,
)
from kitctl.bench.workload import Step
from kitctl.errors import KitError

RESULT = planted_result("a", {1: 10.0, 8: 70.0}, run_record={"id": "r"}, server={"version": "0.5.16"})
TEXT = "\n".join([line_of(RESULT.head), *(line_of(point) for point in RESULT.points)]) + "\n"


def test_round_trip() -> None:
    (found,) = read_results("f", TEXT)
    assert (found.head, found.points) == (RESULT.head, RESULT.points)


def test_a_line_ends_at_a_newline_alone() -> None:
    """Not at what a text elsewhere may take for one: a label of another tool's file can hold it."""
    odd = planted_result("slow \u2028\u0085", {1: 10.0})
    text = "\n".join([line_of(odd.head), *map(line_of, odd.points)]) + "\n"
    (found,) = read_results("f", text)
    assert (found.head.label, len(found.points)) == (odd.head.label, 1)


@pytest.mark.parametrize("lost", [1, 5, 40])
def test_line_cut_short_is_left_out(lost: int) -> None:
    (found,) = read_results("f", TEXT[:-lost])
    assert [point.concurrency for point in found.points] == ([1, 8] if lost == 1 else [1])


def test_broken_line_in_the_middle_is_named() -> None:
    head, *points = TEXT.splitlines()
    with pytest.raises(KitError, match="f is not a result file: line 2: "):
        read_results("f", "\n".join([head, "{oops", *points]))


@pytest.mark.parametrize(
    ("head", "point", "wrong"),
    [
        ({}, {"output_tokens_per_s": -5.0}, "line 4: output_tokens_per_s is -5.0"),
        ({}, {"concurrency": 0}, "line 4: concurrency is 0"),
        ({"run_record": {"phases": [{"name": "x", "seconds": -1}]}}, {}, "line 2: run_record.phases: "),
    ],
)
def test_what_nothing_can_have_measured_is_named(
    head: dict[str, Any], point: dict[str, Any], wrong: str
) -> None:
    """Also on the last line, which is not one that was cut short; empty lines count."""
    first, *_, last = TEXT.splitlines()
    lines = ["", json.dumps(json.loads(first) | head), "", json.dumps(json.loads(last) | point)]
    with pytest.raises(KitError, match=f"f is not a result file: {wrong}"):
        read_results("f", "\n".join(lines))


def test_several_results_in_one_file() -> None:
    other = TEXT.replace('"label":"a"', '"label":"b"')
    assert [result.head.label for result in read_results("f", TEXT + other)] == ["a", "b"]


def test_point_that_stands_twice_counts_as_it_stood_last() -> None:
    again = planted_result("a", {8: 77.0})
    (found,) = read_results("f", TEXT + line_of(again.points[0]) + "\n")
    assert [point.output_tokens_per_s for point in found.points] == [10, 77]


def test_a_point_is_made_of_its_repeats_where_they_stand() -> None:
    """What a point line says beside them is not believed; a point without repeats counts as it is written."""
    (made,) = read_results("f", f"{line_of(RESULT.head)}\n{line_of(GOOD)}\n")
    text = "".join(f"{line_of(item)}\n" for item in (RESULT.head, GOOD, *RESULT.points))
    (found,) = read_results("f", text)
    assert [point.output_tokens_per_s for point in found.points] == [10, made.points[0].output_tokens_per_s]


def test_a_repeat_that_was_taken_again_counts_as_it_was_taken_last() -> None:
    died = msgspec.structs.replace(GOOD, errors=5, error_kinds={"connection": 5})
    (found,) = read_results("f", "".join(f"{line_of(item)}\n" for item in (RESULT.head, died, GOOD)))
    assert [(point.repeats, point.errors) for point in found.points] == [(1, 0)]


def test_a_head_of_another_version_is_named() -> None:
    newer = TEXT.replace("kitctl.bench.run/1", "kitctl.bench.run/9")
    with pytest.raises(KitError, match=r"line 1: its head has the schema kitctl\.bench\.run/9"):
        read_results("f", newer)


def test_only_named_settings_are_kept() -> None:
    info = {"version": "0.5.16", "api_key": "sk-secret", "admin_api_key": None, "tp_size": 8, "unknown": 1}
    assert pick_settings(info, ("version", "tp_size", "pp_size")) == {"version": "0.5.16", "tp_size": 8}


def test_steps_that_are_left() -> None:
    steps = [Step(concurrency=c, repeat=r) for r in (0, 1) for c in (1, 8)]
    assert missing_steps(steps, []) == tuple(steps)
    assert Step(concurrency=8, repeat=0) not in missing_steps(steps, [GOOD])


def test_a_repeat_in_which_too_many_requests_failed_is_left_to_do() -> None:
    step = Step(concurrency=8, repeat=0)
    for failed, left in ((0, ()), (5, (step,))):
        repeat = msgspec.structs.replace(GOOD, errors=failed, error_kinds={"connection": failed})
        assert missing_steps([step], [repeat]) == left


def test_names_apart() -> None:
    results = [("d/x.jsonl", RESULT), ("d/y.jsonl", RESULT), ("e/y.jsonl", RESULT)]
    assert [result.head.label for result in named_apart(results)] == ["a (x)", "a (y)", "a (y) #2"]


def test_real_result_of_the_cpu_engine() -> None:
    """Measured on SGLang 0.5.16's CPU engine by /generate; client and server counted the same tokens."""
    path = Path(__file__).parent.parent / "cases" / "bench" / "kitctl-bench-cpu-engine.jsonl"
    (found,) = read_results("f", path.read_text())
    (point,) = found.points
    assert (point.valid, point.requests, point.server_counter_difference) == (True, 40, 0)
    assert (point.stops, point.output_tokens_mean) == ({"length": 40}, 64)
    assert found.head.server is not None and found.head.server["version"] == "0.5.16"
    assert [repeat.window_completed >= 32 for repeat in found.repeats] == [True]


def test_head_is_strict_json() -> None:
    assert line_of(Head(label="x")).startswith('{"label":"x","kind":"measured"')
