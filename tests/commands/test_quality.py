"""kitctl quality against a server that knows some of the answers."""

import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

from rateserver import Behaviour, rate_server

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
