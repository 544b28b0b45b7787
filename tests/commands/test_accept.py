"""kitctl accept against a server whose acceptance is planted."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from bench.planted import planted_result
from rateserver import Behaviour, rate_server
from recorded import ready_run

from kitctl.bench.results import line_of
from kitctl.bench.workload import Endpoint, Spec

DRAFTED = Behaviour(ttft_ms=5, step_ms=1, speculative=True, tokens_per_chunk=4)


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def accept(url: str, *more: str) -> tuple[int, dict[str, Any]]:
    argv = [sys.executable, "-m", "kitctl", "accept", "--url", url, "--model", "demo", "--json", "-q"]
    argv += ["--output-tokens", "64", "--prompts", "12", *more]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, json.loads(done.stdout)


def test_planted_length_at_two_concurrencies() -> None:
    with rate_server(Behaviour(ttft_ms=5, step_ms=1, speculative=True, tokens_per_chunk=4)) as server:
        code, found = accept(server.url, "--concurrency", "1,4")
    assert code == 0
    assert found["schema"] == "kitctl.accept/1"
    assert found["definition"].startswith("accept length: generated tokens / verify steps, pooled")
    for point, concurrency in zip(found["points"], (1, 4), strict=True):
        assert point["concurrency"] == concurrency
        assert point["overall"]["accept_length"] == 4
        assert point["overall"]["verify_steps"] == 12 * 16
        assert point["accept_length_by_drafts"] == 4
        assert point["counter_accept_length"] == 4
        assert point["position_rates"] == [1, 1, 1]


@pytest.mark.parametrize(
    ("tokens_per_chunk", "more", "code"),
    [(1, (), "drafter-useless"), (3, ("--min-length", "3.5"), "accept-length-low")],
)
def test_gate(tokens_per_chunk: int, more: tuple[str, ...], code: str) -> None:
    how = Behaviour(ttft_ms=5, step_ms=1, speculative=True, tokens_per_chunk=tokens_per_chunk)
    with rate_server(how) as server:
        exit_code, found = accept(server.url, "--concurrency", "4", *more)
    assert exit_code == 9
    assert [finding["code"] for finding in found["findings"]] == [code]


def test_server_without_a_drafter() -> None:
    with rate_server(Behaviour(ttft_ms=5, step_ms=1)) as server:
        exit_code, failure = accept(server.url)
    assert (exit_code, failure["code"]) == (9, "no-drafter")


@pytest.mark.parametrize(
    ("how", "seen"),
    [(Behaviour(error_every=1), "http-500 x12: "), (Behaviour(cut_every=1), "connection x12: ")],
)
def test_server_that_answers_nothing(how: Behaviour, seen: str) -> None:
    how.ttft_ms, how.step_ms = 2, 1
    with rate_server(how) as server:
        exit_code, failure = accept(server.url, "--concurrency", "4")
    assert (exit_code, failure["code"]) == (10, "no-answer")
    assert failure["evidence"][0].startswith(seen)


def test_server_that_speaks_chat_alone_has_no_drafter() -> None:
    with rate_server(Behaviour(ttft_ms=5, step_ms=1, completions=False)) as server:
        exit_code, failure = accept(server.url, "--concurrency", "4")
    assert (exit_code, failure["code"]) == (9, "no-drafter")


def test_many_failed_requests_fail_the_gate() -> None:
    how = Behaviour(ttft_ms=5, step_ms=1, speculative=True, tokens_per_chunk=4, error_every=4)
    with rate_server(how) as server:
        exit_code, found = accept(server.url, "--concurrency", "4")
    assert (exit_code, found["points"][0]["error_kinds"]) == (9, {"http-500": 3})
    assert [finding["code"] for finding in found["findings"]] == ["requests-failed"]


@pytest.mark.parametrize(("context", "asked"), [(0, 256), (200, 100)])
def test_parity_of_equal_servers(context: int, asked: int) -> None:
    """Answers take half of a short context: SGLang refuses what is longer than it together with its prompt."""
    without = Behaviour(ttft_ms=5, step_ms=1, context_tokens=context)
    with rate_server(DRAFTED) as server, rate_server(without) as plain:
        exit_code, found = accept(server.url, "--concurrency", "4", "--parity", plain.url)
        assert {tokens for _, _, _, tokens in plain.truth()} == {asked}
    assert exit_code == 0
    assert (found["parity"]["verdict"], found["parity"]["prompts"]) == ("equal", 12)


def test_parity_with_a_copy_of_a_stack() -> None:
    with rate_server(DRAFTED) as server, rate_server(Behaviour(ttft_ms=5, step_ms=1)) as plain:
        ready_run(server.url)
        ready_run(plain.url, name="plain")
        exit_code, found = accept(
            server.url, "--concurrency", "4", "--parity", "demo-stack", "--parity-name", "plain"
        )
    assert (exit_code, found["parity"]["verdict"]) == (0, "equal")


@pytest.mark.parametrize(
    ("words", "code", "exit_code", "remedy"),
    [
        (["--parity-name", "plain"], "parity-name-alone", 2, "kitctl accept STACK --parity OTHER --parity-name NAME"),
        (["--parity", "http://h:1", "--parity-name", "plain"], "parity-name-alone", 2, None),
        (["--parity", "demo-stack"], "parity-with-itself", 2, None),
        (["--parity", "demo-stack", "--parity-name", "other"], "not-up", 3,
         "give --parity a stack that 'kitctl ps' prints, with --parity-name NAME for a copy, or an address"),
    ],
)  # fmt: skip
def test_parity_with_what_is_no_other_server(
    words: list[str], code: str, exit_code: int, remedy: str | None
) -> None:
    """It is found before a prompt is sent."""
    with rate_server(DRAFTED) as server:
        ready_run(server.url)
        found_code, failure = accept(server.url, *words)
        assert server.truth() == []
    assert (found_code, failure["code"]) == (exit_code, code)
    assert remedy in (None, failure["remedy"])


def test_parity_with_a_server_that_has_a_drafter_too() -> None:
    with rate_server(DRAFTED) as server, rate_server(DRAFTED) as other:
        exit_code, failure = accept(server.url, "--concurrency", "4", "--parity", other.url)
    assert (exit_code, failure["code"]) == (9, "parity-drafted")


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ('{"schema": "kitctl.bench.point/1", "concurrency": 1, "output_tokens_per_s": -9.5}',
         "line 2: output_tokens_per_s is -9.5"),
        (None, "it is what kitctl quality wrote (kitctl.quality/1), which is not taken here"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("option", ["--without", "--with"])
def test_results_that_cannot_be_are_refused_before_anything_is_asked(
    option: str, line: str | None, wrong: str, tmp_path: Path
) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text('{"schema": "kitctl.bench.run/1", "label": "a"}\n')
    bad.write_text(good.read_text() + line if line else '{\n  "schema": "kitctl.quality/1"\n}\n')
    files = {"--without": str(good), "--with": str(good), option: str(bad)}
    exit_code, failure = accept("http://127.0.0.1:9", *(word for pair in files.items() for word in pair))
    assert (exit_code, failure["code"]) == (2, "bad-result")
    assert failure["cause"] == f"{bad} is not a result file: {wrong}"
    assert failure["remedy"] == "give a file that kitctl bench wrote"


@pytest.mark.parametrize(
    ("drafted", "output_tokens", "code", "exit_code"),
    [((1, 4), 128, None, 0), ((4, 8), 128, "nothing-to-fit", 2), ((1, 4), 512, "not-comparable", 3)],
)
def test_sweeps_that_tell_no_speedup_are_refused_before_anything_is_asked(
    drafted: tuple[int, ...], output_tokens: int, code: str | None, exit_code: int, tmp_path: Path
) -> None:
    spec = Spec(model="demo", endpoint=Endpoint.CHAT, dataset="kit", dataset_sha256="x")
    plain = sweep(tmp_path / "plain.jsonl", {1: 100.0, 4: 300.0}, spec)
    changed = msgspec.structs.replace(spec, output_tokens=output_tokens)
    other = sweep(tmp_path / "drafted.jsonl", dict.fromkeys(drafted, 500.0), changed)
    with rate_server(DRAFTED) as server:
        found_code, found = accept(server.url, "--without", plain, "--with", other)
        assert bool(server.truth()) is (code is None)
    assert (found_code, found.get("code")) == (exit_code, code)


def sweep(path: Path, rates: dict[int, float], spec: Spec) -> str:
    result = planted_result("x", rates, spec=spec)
    path.write_text("\n".join([line_of(result.head), *map(line_of, result.points)]) + "\n")
    return str(path)


@pytest.mark.parametrize("verb", ["accept", "quality", "bench"])
def test_a_result_that_cannot_be_written_is_told_before_anything_is_asked(verb: str, tmp_path: Path) -> None:
    with rate_server(DRAFTED) as server:
        argv = [
            sys.executable,
            "-m",
            "kitctl",
            verb,
            "--url",
            server.url,
            "--json",
            "-q",
            "-o",
            str(tmp_path),
        ]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
        assert server.truth() == []
    failure = json.loads(done.stdout)
    assert (done.returncode, failure["code"]) == (2, "output-is-folder")
