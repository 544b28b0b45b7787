"""Which run is measured: just the named one, while it runs; else what is there, or what ended it, is told."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kitctl_process import KitUser, free_port
from rateserver import Behaviour, rate_server

from kitctl.watch.run_record import Outcome, RunRecord, record_text

CRASH = {
    "code": "cuda-oom", "severity": "cause", "cause": "memory ran out", "evidence": ["line"], "remedy": "less",
}  # fmt: skip


def plant(
    user: KitUser,
    project: str,
    url: str,
    outcome: Outcome = Outcome.READY,
    *,
    stamp: str = "0",
    **more: object,
) -> None:
    """The record of a run of ``demo``, without a container."""
    folder = user.state / "runs" / f"2026010{stamp}T000000Z-{project}"
    folder.mkdir(parents=True)
    record = RunRecord(
        id=folder.name, stack="demo", project=project, fingerprint="f", kitctl="0.1.0", command=(),
        started="2026-01-01T00:00:00Z", outcome=outcome, url=url, served_model="demo", plan={}, facts={},
        folder=str(folder), **more,  # type: ignore[arg-type]
    )  # fmt: skip
    (folder / "record.json").write_text(record_text(record))


@pytest.mark.parametrize("verb", ["bench", "accept", "quality"])
def test_a_copy_is_measured_by_its_name_alone(verb: str, kit_user: KitUser) -> None:
    plant(kit_user, "kitctl-demo--trial", "http://127.0.0.1:9")
    plant(kit_user, "kitctl-demo--rehearsal", "http://127.0.0.1:9")
    failed = kit_user.json(verb, "demo", exit_code=3)
    assert failed["code"] == "not-up"
    assert sorted(failed["evidence"][0].removeprefix("ready: ").split(", ")) == [
        "demo --name trial",
        "demo --rehearse",
    ]
    failed = kit_user.json(verb, "demo", "--name", "tril", exit_code=3)
    assert failed["cause"] == "no run of demo --name tril is ready"
    assert "kitctl up demo --name tril, or " in failed["remedy"]


def test_a_name_that_is_no_stack_is_not_told_to_be_brought_up(kit_user: KitUser) -> None:
    for copy in ("", "--a", "--b"):
        plant(kit_user, f"kitctl-demo{copy}", "http://127.0.0.1:9")
    failed = kit_user.json("bench", "nosuch", exit_code=3)
    assert failed["code"] == "not-up"
    assert (
        failed["remedy"]
        == "choose a stack that 'kitctl stacks' prints, or give the server's address with --url"
    )
    told, known = failed["evidence"][0].split("; known: ")
    names = known.split(", ")
    assert told == "there is no stack of that name"
    assert {"demo", "cpu-demo", "demo --name a"} <= set(names) and len(names) == len(set(names))
    near = kit_user.json("bench", "cpu-dmo", exit_code=3)
    assert near["evidence"] == ["there is no stack of that name; did you mean 'cpu-demo'?"]


def test_without_a_kit_what_is_up_is_told_once(kit_user: KitUser) -> None:
    for stamp in ("1", "2"):
        plant(kit_user, "kitctl-demo", "http://127.0.0.1:9", stamp=stamp)
    failed = kit_user.json("bench", "nosuch", "--kit", "/nowhere", exit_code=3)
    assert failed["evidence"] == ["known: demo"]
    assert failed["remedy"].startswith("kitctl up nosuch, or ")


@pytest.mark.parametrize(
    ("project", "words", "label"),
    [
        ("kitctl-demo", ("demo",), "demo"),
        ("kitctl-demo--trial", ("demo", "--name", "trial"), "demo --name trial"),
        ("kitctl-demo--rehearsal", ("demo", "--rehearse"), "demo --rehearse"),
    ],
)
def test_results_tell_which_copy(project: str, words: tuple[str, ...], label: str, kit_user: KitUser) -> None:
    (kit_user.home / "own.jsonl").write_text('{"prompt": "1 + 1?", "answer": "2"}\n')
    with rate_server(Behaviour(ttft_ms=2, step_ms=0.1, answers={"1 + 1": "Answer: 2"})) as server:
        plant(kit_user, project, server.url)
        assert kit_user.json("quality", *words, "--dataset", "own.jsonl")["label"] == label


def test_a_crash_that_was_recorded_is_told(kit_user: KitUser) -> None:
    plant(kit_user, "kitctl-demo--trial", "http://127.0.0.1:9", Outcome.CRASHED, diagnoses=(CRASH,))
    failed = kit_user.json("bench", "demo", "--name", "trial", exit_code=7)
    assert (failed["code"], failed["evidence"]) == ("cuda-oom", ["line"])
    assert failed["cause"] == "demo --name trial is not running: memory ran out"
    assert failed["remedy"] == "less; 'kitctl diagnose demo --name trial' tells more"


def test_a_start_that_failed_is_told(kit_user: KitUser) -> None:
    plant(kit_user, "kitctl-demo", "http://127.0.0.1:9", Outcome.FAILED, diagnoses=(CRASH,))
    failed = kit_user.json("bench", "demo", exit_code=3)
    assert failed["cause"] == "no run of demo is ready: its last one is failed"
    assert failed["evidence"][0] == "cuda-oom: memory ran out"
    assert failed["remedy"].startswith("kitctl diagnose demo, then kitctl up demo, or ")


@contextmanager
def plain_web_server(folder: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words: object) -> None: ...

        def __init__(self, *words: object) -> None:
            super().__init__(*words, directory=str(folder))  # type: ignore[arg-type]

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _SendsOn(http.server.BaseHTTPRequestHandler):
    """Every request is sent to where it came from."""

    def log_message(self, *words: object) -> None: ...

    def do_GET(self) -> None:
        self.send_response(302)
        self.send_header("Location", self.path)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.mark.parametrize("verb", ["bench", "accept", "quality"])
def test_a_server_that_only_sends_on_does_answer(verb: str, kit_user: KitUser) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _SendsOn) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        failed = kit_user.json(verb, "--url", url, exit_code=10)
        server.shutdown()
    assert (failed["code"], failed["evidence"]) == ("no-model", [f"GET {url}/v1/models: HTTP 302"])
    assert failed["cause"] == f"{url} answers, but only sends its callers on: Exceeded 30 redirects"


def test_a_server_of_another_kind_is_told_from_none(kit_user: KitUser) -> None:
    with plain_web_server(kit_user.home) as url:
        failed = kit_user.json("quality", "--url", url, exit_code=10)
        assert (failed["code"], failed["evidence"]) == ("no-model", [f"GET {url}/v1/models: HTTP 404"])
        assert failed["cause"] == f"{url} answers, but not as an OpenAI-compatible server does"
        assert kit_user.json("accept", "--url", url, "--model", "m", exit_code=10)["code"] == "no-answer"
    away = f"http://127.0.0.1:{free_port()}"
    assert kit_user.json("quality", "--url", away, exit_code=10)["code"] == "server-unreachable"
