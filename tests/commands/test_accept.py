"""kitctl accept against a server whose acceptance is planted."""

import json
import subprocess
import sys
from typing import Any

import pytest
from rateserver import Behaviour, rate_server


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


def test_parity_of_equal_servers() -> None:
    drafted = Behaviour(ttft_ms=5, step_ms=1, speculative=True, tokens_per_chunk=4)
    with rate_server(drafted) as server, rate_server(Behaviour(ttft_ms=5, step_ms=1)) as plain:
        exit_code, found = accept(server.url, "--concurrency", "4", "--parity", plain.url)
    assert exit_code == 0
    assert (found["parity"]["verdict"], found["parity"]["prompts"]) == ("equal", 12)
