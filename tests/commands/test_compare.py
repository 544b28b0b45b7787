"""kitctl compare: table, gate, page, and the published reference."""

import argparse
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
from kitctl.commands.compare import percent

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


@pytest.mark.parametrize("kind", ["itself", "link", "result", "folder"])
def test_page_takes_no_results_place(tmp_path: Path, kind: str) -> None:
    own, other = write(tmp_path / "a.jsonl", "a", {1: 1.0}), write(tmp_path / "b.jsonl", "b", {1: 1.0})
    (tmp_path / "link.html").symlink_to(own)
    place = {"itself": own, "link": str(tmp_path / "link.html"), "result": other, "folder": str(tmp_path)}[
        kind
    ]
    before = Path(own).read_text(), Path(other).read_text()
    exit_code, text = compare(own, "--html", place, "--json")
    code = {"result": "output-is-no-page", "folder": "output-is-folder"}.get(kind, "output-is-input")
    assert (exit_code, json.loads(text)["code"]) == (2, code)
    assert (Path(own).read_text(), Path(other).read_text()) == before


def test_a_page_is_replaced(tmp_path: Path) -> None:
    own, page = write(tmp_path / "a.jsonl", "a", {1: 1.0}), tmp_path / "page.html"
    assert [compare(own, "--html", str(page))[0] for _ in range(2)] == [0, 0]


def test_gate_that_could_not_look_does_not_pass(tmp_path: Path) -> None:
    old, new = (
        write(tmp_path / "a.jsonl", "old", {1: 9.0, 8: 100.0}),
        write(tmp_path / "b.jsonl", "new", {8: 100.0}),
    )
    exit_code, text = compare(old, new, "--gate", "5%", "--json")
    gate = json.loads(text)["gate"]
    assert (exit_code, gate["passed"], [one["concurrency"] for one in gate["judged"]]) == (9, False, [8])
    assert [(one["concurrency"], one["reason"]) for one in gate["not_judged"]] == [
        (1, "new has no point there")
    ]
    exit_code, text = compare(old, new, "--gate", "5%", "--csv")
    assert (exit_code, len(list(csv.reader(text.splitlines())))) == (9, 4)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--gate", "5%"), "nothing-to-gate"),
        (("--gate-on", "ttft"), "gate-without-limit"),
        (("--csv",), "two-formats"),
    ],
)
def test_options_that_do_not_go_together(tmp_path: Path, words: tuple[str, ...], code: str) -> None:
    exit_code, text = compare(write(tmp_path / "a.jsonl", "a", {1: 1.0}), *words, "--json")
    assert (exit_code, json.loads(text)["code"]) == (2, code)


def test_csv_and_markdown_exclude_each_other(tmp_path: Path) -> None:
    assert compare(write(tmp_path / "a.jsonl", "a", {1: 1.0}), "--csv", "--markdown") == (2, "")


def test_other_models_are_noted_and_not_gated(tmp_path: Path) -> None:
    spec = Spec(model="m", endpoint=Endpoint.COMPLETIONS, dataset="random")
    old = write(tmp_path / "a.jsonl", "old", {8: 100.0}, spec=spec)
    new = write(tmp_path / "b.jsonl", "new", {8: 100.0}, spec=msgspec.structs.replace(spec, model="n"))
    page = tmp_path / "page.html"
    told = "old and new served different models"
    assert json.loads(compare(old, new, "--json", "--html", str(page))[1])["notes"][0]["cause"] == told
    assert told in page.read_text()
    assert f"WARN  other-model: {told}" in compare(old, new)[1]
    assert f"- WARN other-model: {told}" in compare(old, new, "--markdown")[1]
    exit_code, text = compare(old, new, "--gate", "5%", "--json")
    assert (exit_code, json.loads(text)["cause"]) == (3, told)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"schema":"kitctl.bench.point/1"}\n{}\n', "line 1: it has neither concurrency nor request_rate"),
        ('{"schema":"kitctl.bench.point/1","concurrency":1}\n{}\n', "line 1: "),
        ('{\n"schema": "kitctl.quality/1"}', "it is what kitctl quality wrote"),
        ('{"schema": "kitctl.plan/1"}', "it is what kitctl plan wrote"),
    ],
)
def test_what_a_wrong_file_is(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "x").write_text(content)
    exit_code, text = compare(str(tmp_path / "x"), "--json")
    found = json.loads(text)
    assert (exit_code, words in found["cause"], "kitctl accept" in found["remedy"]) == (2, True, True)
    assert "list index" not in found["cause"]


def test_points_before_their_head(tmp_path: Path) -> None:
    head, point = Path(write(tmp_path / "a.jsonl", "a", {1: 1.0})).read_text().splitlines()
    (tmp_path / "a.jsonl").write_text(f"{point}\n{head}\n")
    assert "line 1: it stands before any head line" in compare(str(tmp_path / "a.jsonl"), "--json")[1]


def test_figures_that_nothing_measured(tmp_path: Path) -> None:
    for rate in (-5.0, 1e308):
        _, text = compare(write(tmp_path / "a.jsonl", "a", {1: 1.0, 8: rate}), "--json")
        found = json.loads(text)
        assert (found["code"], f"line 3: output_tokens_per_s is {rate!r}" in found["cause"]) == (
            "bad-result",
            True,
        )


@pytest.mark.parametrize("text", ["100%", "1", "5", "-1%", "nan", "x"])
def test_a_gate_that_nothing_could_fail(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"'{text}' is no share from 0 to below 100 %"):
        percent(text)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bin").write_bytes(b"\xff\xfe")
    for name, words in (
        ("no", "there is no such file"),
        ("", "it is a folder"),
        ("bin", "it is not UTF-8 text"),
    ):
        exit_code, text = compare(str(tmp_path / name), "--json")
        assert (exit_code, words in json.loads(text)["cause"]) == (2, True)


def test_acceptance_and_phases_that_cannot_be_drawn(tmp_path: Path) -> None:
    own, accept, page = (
        write(tmp_path / "a.jsonl", "a", {1: 1.0}),
        tmp_path / "accept.json",
        str(tmp_path / "p"),
    )
    accept.write_text('{"schema": "kitctl.accept/1", "points": [{"histogram": null}]}')
    assert compare(own, str(accept), "--html", page)[0] == 2
    (tmp_path / "b.jsonl").write_text(line_of(Head(label="b", run_record={"phases": [{}]})) + "\n")
    assert compare(str(tmp_path / "b.jsonl"), "--html", page)[0] == 2
