"""kitctl quality against a server that knows some of the answers."""

import json
import subprocess
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from rateserver import Behaviour, rate_server

from kitctl.bench.prompts import read_prompt_set
from kitctl.edge.package_data import package_text

QUESTIONS = [
    json.loads(line)
    for line in files("kitctl.data").joinpath("quality/kit.jsonl").read_text(encoding="utf-8").splitlines()
]


def knowing(count: int) -> Behaviour:
    known = {json.dumps(q["prompt"])[1:60]: f"Answer: {q['answer']}" for q in QUESTIONS[:count]}
    return Behaviour(ttft_ms=2, step_ms=0.1, stop_at=8, answers=known)


def quality(url: str, *more: str) -> tuple[int, dict[str, Any]]:
    argv = [sys.executable, "-m", "kitctl", "quality", "--url", url, "--model", "demo", "--json", "-q", *more]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, json.loads(done.stdout)


def test_score_and_comparison(tmp_path: Path) -> None:
    first = str(tmp_path / "first.json")
    with rate_server(knowing(50)) as server:
        code, good = quality(server.url, "-o", first)
    assert code == 0
    assert (good["schema"], good["score"]["correct"], good["score"]["asked"]) == ("kitctl.quality/1", 50, 60)
    assert good["categories"]["maths"]["share"] == 1
    with rate_server(knowing(49)) as server:
        assert quality(server.url, "--against", first)[0] == 0
    with rate_server(knowing(40)) as server:
        code, worse = quality(server.url, "--against", first)
    assert code == 9
    assert (len(worse["change"]["lost"]), worse["change"]["won"]) == (10, [])


@pytest.mark.parametrize(("context", "asked"), [(0, 2048), (1000, 500), (100_000, 2048)])
def test_an_answer_may_take_half_of_a_short_context(context: int, asked: int) -> None:
    """SGLang refuses every request whose prompt and asked answer are longer than its context together."""
    with rate_server(replace(knowing(50), context_tokens=context)) as server:
        code, found = quality(server.url)
    assert (code, found["output_tokens"]) == (0, asked)


def test_answers_that_fill_the_context_are_refused_before_a_question_is_sent() -> None:
    with rate_server(replace(knowing(50), context_tokens=1000)) as server:
        code, failure = quality(server.url, "--output-tokens", "1000")
        assert quality(server.url, "--output-tokens", "999")[0] == 0
    assert (code, failure["code"]) == (2, "answer-too-long")
    assert "--output-tokens 500" in failure["remedy"]


def test_least_score() -> None:
    with rate_server(knowing(30)) as server:
        assert quality(server.url, "--min-score", "0.6")[0] == 9
        assert quality(server.url, "--min-score", "0.4")[0] == 0


def test_other_questions_are_not_compared(tmp_path: Path) -> None:
    own = tmp_path / "own.jsonl"
    own.write_text('{"prompt": "1 + 1?", "answer": "2"}\n')
    with rate_server(Behaviour(ttft_ms=2, step_ms=0.1, answers={"1 + 1": "Answer: 2"})) as server:
        code, found = quality(server.url, "--dataset", str(own), "-o", str(tmp_path / "r.json"))
        assert (code, found["score"]["share"]) == (0, 1)
        code, failure = quality(server.url, "--against", str(tmp_path / "r.json"))
    assert (code, failure["code"]) == (2, "other-questions")


@pytest.mark.parametrize(("option", "then"), [("--output-tokens", "64"), ("--temperature", "0.5")])
def test_answers_under_other_settings_are_not_compared(option: str, then: str, tmp_path: Path) -> None:
    first = str(tmp_path / "first.json")
    with rate_server(knowing(50)) as server:
        _, found = quality(server.url, option, then, "-o", first)
        assert found[option.removeprefix("--").replace("-", "_")] == float(then)
        code, failure = quality(server.url, "--against", first)
        assert (code, failure["code"]) == (2, "other-settings")
        assert failure["remedy"].startswith(f"give {option} {then}, or ")
        assert quality(server.url, "--against", first, option, then)[0] == 0


DIGEST = read_prompt_set("kit", package_text("quality/kit.jsonl")).sha256
EARLIER: dict[str, Any] = {
    "schema": "kitctl.quality/1",
    "dataset": {"sha256": DIGEST},
    "score": {"asked": 2, "correct": 1, "share": 0.5},
    "answers": [{"id": "a", "correct": True}, {"id": "b", "correct": False}],
}


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({"schema": "kitctl.bench/1"}, "it is what kitctl bench wrote (kitctl.bench/1), which is not taken here"),
        ({"schema": None}, "it is no JSON object of kitctl.quality/1"),
        ({"dataset": None}, "Expected `object`, got `null` - at `$.dataset`"),
        ({"answers": [{"correct": True}]}, "Object missing required field `id` - at `$.answers[0]`"),
        ({"score": {"asked": 2, "correct": 1, "share": 1.5}}, "Expected `float` <= 1.0 - at `$.score.share`"),
        ({"score": {"asked": 9, "correct": 1, "share": 0.5}}, "score.asked is 9, and 2 are told"),
        ({"score": {"asked": 2, "correct": 2, "share": 0.5}}, "score.correct is 2, and 1 are told"),
        ({"failed": -1}, "Expected `int` >= 0 - at `$.failed`"),
    ],
)  # fmt: skip
def test_earlier_results_that_cannot_be_are_refused(
    changed: dict[str, Any], wrong: str, tmp_path: Path
) -> None:
    path = tmp_path / "earlier.json"
    path.write_text(json.dumps(EARLIER | changed, indent=2))
    with rate_server(Behaviour(ttft_ms=2, step_ms=0.1)) as server:
        code, failure = quality(server.url, "--against", str(path))
    assert (code, failure["code"], failure["cause"]) == (
        2,
        "bad-result",
        f"{path} is not a result file: {wrong}",
    )


@pytest.mark.parametrize(
    ("how", "kind"), [(Behaviour(error_every=1), "http-500"), (Behaviour(cut_every=1), "connection")]
)
def test_no_answer_is_no_score(how: Behaviour, kind: str, tmp_path: Path) -> None:
    how.ttft_ms, how.step_ms, how.stop_at = 2, 0.1, 8
    with rate_server(how) as server:
        code, failure = quality(server.url, "-o", str(tmp_path / "r.json"))
    assert (code, failure["code"]) == (10, "no-answer")
    assert failure["evidence"][0].startswith(f"{kind} x60: ")
    assert not (tmp_path / "r.json").exists()


def test_some_failed_requests_make_the_score_invalid_and_no_baseline(tmp_path: Path) -> None:
    spoilt = tmp_path / "spoilt.json"
    how = knowing(60)
    how.error_every = 20
    with rate_server(how) as server:
        code, found = quality(server.url, "-o", str(spoilt))
        assert (code, found["valid"], found["failed"], found["failed_kinds"]) == (
            9,
            False,
            3,
            {"http-500": 3},
        )
        assert found["invalid_reasons"] == ["errors: 3 of 60 requests failed (http-500 x3)"]
        code, failure = quality(server.url, "--against", str(spoilt))
    assert (code, failure["code"]) == (2, "failed-baseline")


def test_answers_cut_at_the_limit_are_told() -> None:
    with rate_server(Behaviour(ttft_ms=2, step_ms=0.1)) as server:
        argv = [sys.executable, "-m", "kitctl", "quality", "--url", server.url, "--output-tokens", "16"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
        _, found = quality(server.url, "--output-tokens", "16")
    assert "60 of 60 answers ended at the token limit (finish length)" in done.stdout
    assert "raise --output-tokens" in done.stdout
    assert (found["score"]["cut"], found["failed"], found["valid"]) == (60, 0, True)
