"""Remedies are tried gentlest first, within bounds, and are written down as a file to keep."""

from typing import Any

import pytest

from kitctl.edge.failure_book import failure_book
from kitctl.kit.failures import Change, Rung
from kitctl.kit.settings import read_setting
from kitctl.kit.yaml_reader import read_yaml
from kitctl.watch.diagnose import Diagnosis
from kitctl.watch.remedy import Step, changed_value, next_step, override_text

LADDER = (
    Rung(why="prefill graphs", changes=(Change(path="engine.graphs", to="decode"),)),
    Rung(why="batch", changes=(Change(path="engine.graph_max_bs", times=0.5, start=64.0, least=4.0),)),
    Rung(why="graphs", changes=(Change(path="engine.graphs", to="off"),)),
)
FOUND = Diagnosis(code="x", severity="cause", cause="c", evidence=(), remedy="r", ladder=LADDER)


def walk(settings: dict[str, Any], steps: int) -> list[tuple[str, ...]]:
    tried: list[Step] = []
    for _ in range(steps):
        step = next_step([FOUND], settings, tried=tried)
        if step is None:
            break
        tried.append(step)
        for path, value in step.settings:
            group, name = path.split(".")
            settings = {**settings, group: {**settings[group], name: value}}
    return [step.words for step in tried]


def test_the_ladder_is_climbed_and_then_its_steps_again() -> None:
    assert walk({"engine": {"graphs": "on", "graph_max_bs": None}}, 9) == [
        ("engine.graphs=decode",),
        ("engine.graph_max_bs=32",),
        ("engine.graphs=off",),
        ("engine.graph_max_bs=16",),
        ("engine.graph_max_bs=8",),
        ("engine.graph_max_bs=4",),
    ]


def test_a_rung_that_changes_nothing_is_stepped_over() -> None:
    assert walk({"engine": {"graphs": "decode", "graph_max_bs": 4}}, 1) == [("engine.graphs=off",)]


def test_nothing_is_left_when_no_diagnosis_has_a_ladder() -> None:
    plain = Diagnosis(code="y", severity="cause", cause="c", evidence=(), remedy="r")
    assert next_step([plain], {}) is None


@pytest.mark.parametrize(
    ("change", "now", "after"),
    [
        (Change(path="p", add=-0.05, start=0.85, least=0.5), 0.9, 0.85),
        (Change(path="p", add=-0.05, start=0.85, least=0.5), None, 0.8),
        (Change(path="p", add=-0.05, start=0.85, least=0.5), 0.52, 0.5),
        (Change(path="p", add=-0.05, start=0.85, least=0.5), 0.5, None),
        (Change(path="p", add=0.05, start=0.85, most=0.95), 0.93, 0.95),
        (Change(path="p", times=0.5, start=64.0, least=4.0), 7, 4),
        (Change(path="p", times=0.8, start=0.85, least=0.3), None, 0.68),
        (Change(path="p", to="triton"), "fa3", "triton"),
        (Change(path="p", add=-0.05), None, None),
    ],
)
def test_a_change_stays_within_its_bounds(change: Change, now: Any, after: Any) -> None:
    assert changed_value(change, now) == after


def test_words_are_read_back_as_the_same_settings() -> None:
    step = Step(
        code="x",
        rung=1,
        why="w",
        settings=(
            ("environment.NCCL_P2P_DISABLE", "1"),
            ("engine.graphs", "off"),
            ("engine.flags.disable_custom_all_reduce", True),
            ("engine.mem_fraction_static", 0.8),
        ),
    )
    assert [read_setting(word) for word in step.words] == list(step.settings)


def test_the_winner_is_a_stack_file_that_says_why() -> None:
    step = Step(code="x", rung=1, why="prefill graphs", settings=(("engine.graphs", "decode"),))
    own = {"summary": "s", "uses": ["kimi-k2.6"], "engine": {"context_length": 4096}}
    text = override_text(own, [step], name="ep4", run_id="r1")
    assert text.splitlines()[:2] == [
        "# ep4, as run r1 came up. Each change and why:",
        "# engine.graphs=decode  (x: prefill graphs)",
    ]
    assert read_yaml(text, source="x") == {**own, "engine": {"context_length": 4096, "graphs": "decode"}}


def test_every_ladder_of_the_book_sets_paths_that_a_stack_has() -> None:
    paths = {
        change.path
        for failure in failure_book().failures
        for rung in failure.record.ladder
        for change in rung.changes
    }
    groups = {path.split(".")[0] for path in paths}
    assert groups <= {"engine", "environment"}
    from kitctl.kit.stack import EngineSettings

    engine = {path.split(".")[1] for path in paths if path.startswith("engine.")}
    assert engine <= set(EngineSettings.__struct_fields__)
