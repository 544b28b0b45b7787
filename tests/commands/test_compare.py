"""kitctl compare: table, gate, page, and the published reference."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kitctl.bench.points import Point
from kitctl.bench.results import Head, line_of
from kitctl.bench.workload import Endpoint, Spec

CASES = Path(__file__).parent.parent / "cases" / "bench"


def write(path: Path, label: str, rates: dict[int, float], *, spec: Spec | None = None) -> str:
    lines = [line_of(Head(label=label, spec=spec))]
    for concurrency, rate in rates.items():
        point = Point(
            concurrency=concurrency, output_tokens_per_s=rate, output_tokens_per_s_interval=(rate * 0.99, rate * 1.01),
            ttft_ms=None, tpot_ms=None, requests=10, errors=0, valid=True, invalid_reasons=(),
        )  # fmt: skip
        lines.append(line_of(point))
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def compare(*words: str) -> tuple[int, str]:
    argv = [sys.executable, "-m", "kitctl", "compare", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


@pytest.mark.parametrize(("rate", "code"), [(93.0, 9), (97.0, 0), (110.0, 0)])
def test_gate(tmp_path: Path, rate: float, code: int) -> None:
    old, new = write(tmp_path / "a.jsonl", "old", {8: 100.0}), write(tmp_path / "b.jsonl", "new", {8: rate})
    exit_code, text = compare(old, new, "--gate", "5%", "--json")
    found: dict[str, Any] = json.loads(text)
    assert exit_code == code
    assert found["schema"] == "kitctl.compare/1"
    assert [entry["label"] for entry in found["gate"]["failed"]] == (["new"] if code else [])
    assert found["differences"][0]["change"] == pytest.approx(rate / 100 - 1)


def test_gate_refuses_results_of_other_loads(tmp_path: Path) -> None:
    spec = Spec(model="m", endpoint=Endpoint.COMPLETIONS, dataset="random")
    old = write(tmp_path / "a.jsonl", "old", {8: 100.0}, spec=spec)
    new = write(tmp_path / "b.jsonl", "new", {8: 90.0}, spec=msgspec.structs.replace(spec, output_tokens=512))
    exit_code, text = compare(old, new, "--gate", "5%", "--json")
    assert (exit_code, json.loads(text)["code"]) == (3, "not-comparable")


def test_published_reference_is_at_hand() -> None:
    exit_code, text = compare("published", "--markdown")
    assert exit_code == 0
    assert text.splitlines()[:8] == [
        "| output tok/s | C=1 | C=32 | C=64 | C=128 | C=192 | C=256 |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| tp8-eager | 26.3 | 577.8 | 693.0 | - | - | 808.0 |",
        "| tp8 | 97.9 | 683.9 | 951.4 | 1291.0 | 1213.9 | 1263.0 |",
        "| pp8 | 36.9 | 250.9 | 396.0 | - | - | - |",
        "| ep8 | 65.2 | 624.1 | 935.6 | 1416.9 | 1441.9 | 1492.5 |",
        "| ep4 | 69.0 | 658.5 | 974.8 | 1449.2 | 1475.8 | 1530.5 |",
        "| ep8-dflash | 86.0 | - | - | - | - | 1146.0 |",
    ]


def test_csv_and_imported_results(tmp_path: Path) -> None:
    own = write(tmp_path / "a.jsonl", "own", {8: 5000.0})
    exit_code, text = compare(own, str(CASES / "bench-serving-ar-c8.jsonl"), "--csv")
    assert exit_code == 0
    rows = list(csv.DictReader(text.splitlines()))
    assert [(row["label"], row["kind"], row["concurrency"]) for row in rows] == [
        ("own", "measured", "8"),
        ("bench-serving-ar-c8", "imported", "8"),
    ]
    assert round(float(rows[1]["output_tokens_per_s"])) == 5006


def test_page(tmp_path: Path) -> None:
    own = write(tmp_path / "a.jsonl", "own", {1: 90.0, 32: 700.0})
    accept = tmp_path / "accept.json"
    accept.write_text('{"label": "own", "schema": "kitctl.accept/1", "points": [{"histogram": [1, 2, 3]}]}')
    exit_code, _ = compare("published", own, str(accept), "--html", str(tmp_path / "page.html"))
    assert exit_code == 0
    text = (tmp_path / "page.html").read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert "own: 0.5 at 2" in text


def test_labels_that_recur_are_told_apart(tmp_path: Path) -> None:
    one, two = write(tmp_path / "a.jsonl", "x", {1: 1.0}), write(tmp_path / "b.jsonl", "x", {1: 2.0})
    _, text = compare(one, two, "--json")
    assert [result["label"] for result in json.loads(text)["results"]] == ["x (a)", "x (b)"]


@pytest.mark.parametrize(
    "content", ["", "nonsense\n", '{"a": 1}\n', '{"schema":"kitctl.bench.point/1"}\n{}\n']
)
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "x").write_text(content)
    exit_code, text = compare(str(tmp_path / "x"), "--json")
    assert (exit_code, json.loads(text)["code"]) == (2, "bad-result")
