"""Figures that nothing can have measured are named by their key; what a client really wrote is let through."""

import json
from pathlib import Path
from typing import Any

import pytest

from kitctl.bench.bench_serving import read_bench_serving
from kitctl.bench.figures import wrong_acceptance, wrong_figure, wrong_import, wrong_phases
from kitctl.errors import KitError

CASES = Path(__file__).parent.parent / "cases" / "bench"
IMPORTED = json.loads((CASES / "bench-serving-ar-c8.jsonl").read_text().splitlines()[0])


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({}, None),
        ({"seed": 2**64 - 1, "late_ms": -1, "server": {"x": -1}}, None),
        ({"output_tokens_per_s_interval": [-3.0, 9.0]}, None),
        ({"output_tokens_per_s": -5.0}, "output_tokens_per_s is -5.0"),
        ({"output_tokens_per_s": 10**400}, "output_tokens_per_s is 100000000000... (401 characters)"),
        ({"ttft_ms": {"mean": 1e308}}, "ttft_ms.mean is 1e+308"),
        ({"repeat_output_tokens_per_s": [1.0, float("inf")]}, "repeat_output_tokens_per_s is inf"),
        ({"output_tokens_per_s_interval": [1.0, 1e13]}, "output_tokens_per_s_interval is 10000000000000.0"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"concurrency": None}, "it has neither concurrency nor request_rate"),
        ({"requests": 16, "errors": 16}, None),
        ({"requests": 16, "errors": 50}, "errors is 50 of 16 requests"),
        ({"requests": 16, "completed": 99}, "completed is 99 of 16 requests"),
        ({"requests": 16, "answered": 17}, "answered is 17 of 16 requests"),
        (
            {"output_tokens_per_s_interval": [300.0, 10.0]},
            "output_tokens_per_s_interval does not rise: 300.0, 10.0",
        ),
        ({"ttft_ms": {"mean": 9, "p50": 500, "p99": 3}}, "ttft_ms does not rise: 500, 3"),
        ({"ttft_ms": None, "ttft_ms_interval": None}, None),
    ],
)
def test_own_lines(fields: dict[str, Any], wrong: str | None) -> None:
    assert wrong_figure({"concurrency": 8, **fields}) == wrong


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({}, None),
        ({"output_throughput": float("nan")}, "output_throughput is nan"),
        ({"max_concurrency": float("inf")}, "max_concurrency is inf"),
        ({"request_rate": -1}, "request_rate is -1"),
    ],
)
def test_imported_lines(fields: dict[str, Any], wrong: str | None) -> None:
    assert wrong_import({**IMPORTED, **fields}) == wrong


@pytest.mark.parametrize("line", ["[1]", json.dumps({**IMPORTED, "output_throughput": -1})])
def test_imported_line_is_named(line: str) -> None:
    with pytest.raises(KitError, match="x is not a result of bench_serving: line 2: "):
        read_bench_serving("x", f"{json.dumps(IMPORTED)}\n{line}\n", allowed=())


@pytest.mark.parametrize(
    "points", [{"a": 1}, [3], [{}], [{"histogram": None}], [{"histogram": [1, "x"]}], [{"histogram": [-1]}]]
)
def test_acceptance_that_cannot_be_drawn(points: Any) -> None:
    assert wrong_acceptance({"points": points}) is not None
    assert wrong_acceptance({"points": [{"histogram": [1, 2], "more": 3}]}) is None


@pytest.mark.parametrize("phases", [{"a": 1}, [3], [{}], [{"name": "x", "seconds": -5}]])
def test_phases_that_cannot_be_drawn(phases: Any) -> None:
    assert wrong_phases({"phases": phases}) is not None
    assert wrong_phases({"phases": [{"name": "x", "seconds": 5}]}) is wrong_phases(None) is None
