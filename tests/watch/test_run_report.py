"""Run records in short, in full and compared, never with a secret."""

from typing import Any

import pytest

from kitctl.watch.redact import is_secret_name, redacted
from kitctl.watch.run_record import Outcome, PhaseTime, RunModel, RunRecord
from kitctl.watch.run_report import diff_lines, diff_runs, row_line, run_json, run_row, show_lines


def record(**changes: Any) -> RunRecord:
    fields: dict[str, Any] = {
        "id": "20261129T120000Z-kitctl-ep4-0001",
        "stack": "ep4",
        "project": "kitctl-ep4",
        "fingerprint": "aa",
        "kitctl": "0.1.0",
        "command": ("up", "ep4"),
        "started": "2026-11-29T12:00:00.000Z",
        "outcome": Outcome.READY,
        "url": "http://127.0.0.1:30001",
        "served_model": "kimi",
        "plan": {"argv": ["--tp-size", "8", "--api-key", "hush"], "environment": {"HF_TOKEN": "hf_x"}},
        "facts": {"driver": {"version": "580.159"}, "clock_utc": "2026-11-29T12:00:00Z"},
        "models": (RunModel(model="a/b", role="target", commit="c0"),),
        "phases": (PhaseTime(name="weights", seconds=200.0), PhaseTime(name="total", seconds=255.0)),
        "folder": "/state/runs/1",
    }
    return RunRecord(**{**fields, **changes})


def test_a_row_says_how_it_went() -> None:
    assert row_line(run_row(record())) == (
        "20261129T120000Z-kitctl-ep4-0001                      ready          255.0 s"
    )
    crashed = record(outcome=Outcome.CRASHED, phases=(), diagnoses=({"code": "shm-too-small"},), ready=None)
    assert row_line(run_row(crashed)) == (
        "20261129T120000Z-kitctl-ep4-0001                      crashed              -  shm-too-small"
    )


def test_no_secret_is_shown() -> None:
    shown = run_json(record())
    assert shown["plan"] == {
        "argv": ["--tp-size", "8", "--api-key", "(hidden)"],
        "environment": {"HF_TOKEN": "(hidden)"},
    }
    assert all("hush" not in line and "hf_x" not in line for line in show_lines(record()))


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HF_TOKEN", True),
        ("OPENAI_API_KEY", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("DB_PASSWORD", True),
        ("NCCL_P2P_LEVEL", False),
        ("MAX_TOKENS", False),
        ("TOKENIZERS_PARALLELISM", False),
    ],
)
def test_which_names_are_secret(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret
    assert redacted({"environment": {name: "v"}}) == {"environment": {name: "(hidden)" if secret else "v"}}


def test_two_runs_are_compared_where_it_matters() -> None:
    after = record(
        id="20261130T120000Z-kitctl-ep4-0002",
        fingerprint="bb",
        plan={"argv": ["--tp-size", "8", "--ep-size", "4"], "environment": {"HF_TOKEN": "hf_y"}},
        facts={"driver": {"version": "590.10"}, "clock_utc": "2026-11-30T12:00:00Z"},
        models=(RunModel(model="a/b", role="target", commit="c1"),),
        phases=(PhaseTime(name="weights", seconds=100.0), PhaseTime(name="graphs", seconds=9.0)),
    )
    assert [line for row in diff_runs(record(), after) for line in diff_lines(row)] == [
        "fingerprint: aa -> bb",
        "--api-key: (hidden) -> not set",
        "--ep-size: not set -> 4",
        "facts.driver.version: 580.159 -> 590.10",
        "models[0].commit: c0 -> c1",
        "phases.weights: 200.0 -> 100.0",
        "phases.total: 255.0 -> not set",
        "phases.graphs: not set -> 9.0",
    ]


def test_a_run_does_not_differ_from_itself() -> None:
    assert diff_runs(record(), record(id="other", started="later")) == ()
