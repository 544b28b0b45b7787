"""The real engine on the CPU fails as the records say, and a killed part of it is named."""

import json
import os
import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from typing import Any

import pytest
import requests
from chaos.events import Told, watch
from chaos.faults import BY_NAME
from chaos.measured import settle
from chaos.test_starts import verdict_of
from kitctl_process import KitUser, docker

from kitctl.commands.starting import Target, prove_answer

pytestmark = [pytest.mark.docker, pytest.mark.slow]
watching = contextmanager(watch)
SMALL = """\
services:
  engine:
    mem_limit: 900m
    memswap_limit: 900m
x-kitctl:
  summary: a memory limit that the engine reaches
"""


def up_engine(user: KitUser, *words: str) -> Told:
    """``kitctl up cpu-demo`` with the kit's own image."""
    run = user.start(*user.up("--no-build", "--json"), *words)
    with run.process as process:
        assert process.stderr is not None and process.stdout is not None
        lines = [(time.time(), line.rstrip()) for line in process.stderr]
        out = process.stdout.read()
    return Told(exit_code=process.returncode, lines=lines, data=json.loads(out))


def died_s(user: KitUser, *, since_s: float) -> float:
    """The second at which the container ended, by the container engine's own event."""
    since = str(int(since_s) - 5)
    events = docker(
        "events", "--since", since, "--until", str(int(time.time()) + 1), "--filter", "event=die",
        "--format", "{{.TimeNano}} {{.Actor.Attributes.name}}",
    )  # fmt: skip
    mine = [line.split()[0] for line in events.splitlines() if user.name in line]
    return int(mine[-1]) / 1e9


@pytest.mark.parametrize(
    ("name", "words", "verdict"),
    [
        ("engine-flag", ("--skip", "flag-unknown", "--", "--no-such-flag"), "engine-flag-refused"),
        (
            "engine-context",
            ("--skip", "context-above-model", "--set", "engine.context_length=999999"),
            "context-length-above-model",
        ),
        ("engine-memory-limit", ("--add", "small"), "host-oom-killer"),
    ],
)
def test_a_start_that_the_engine_refuses(
    name: str, words: tuple[str, ...], verdict: str, kit_user: KitUser, accept: bool
) -> None:
    kit_user.write_config("overlays/small.yaml", SMALL)
    told = up_engine(kit_user, *words)
    assert (told.exit_code, verdict_of(told.data)) == (7, verdict), told.lines
    assert kit_user.leftovers() == []
    settle(name, told.when("engine: ") - died_s(kit_user, since_s=told.lines[0][0]), accept=accept)


def process_of(user: KitUser, title: str) -> int:
    """The pid on the host of the engine's process with that title."""
    rows = docker("top", user.containers()[0], "-eo", "pid,args").splitlines()[1:]
    return next(int(row.split()[0]) for row in rows if title in row)


@pytest.mark.parametrize(
    ("name", "title", "number", "state", "codes", "every"),
    [
        ("engine-scheduler-killed", "sglang::scheduler", signal.SIGKILL, "failing", ["rank-killed"], "1"),
        (
            "engine-detokenizer-killed",
            "sglang::detok",
            signal.SIGKILL,
            "failing",
            ["detokenizer-killed"],
            "1",
        ),
        ("engine-scheduler-stopped", "sglang::scheduler", signal.SIGSTOP, "unwell", None, "1"),
        ("engine-main-killed", "launch_server", signal.SIGKILL, "crashed", None, "1"),
    ],
)
def test_a_part_of_a_serving_engine_dies(
    name: str, title: str, number: signal.Signals, state: str, codes: list[str] | None, every: str,
    kit_user: KitUser, accept: bool,
) -> None:  # fmt: skip
    told = up_engine(kit_user)
    assert told.exit_code == 0, told.lines
    with watching(kit_user, "--every", every) as watcher:
        watcher.wait_for("ready", timeout_s=30)
        hit_s = time.time()
        os.kill(process_of(kit_user, title), number)
        at_s, change = watcher.wait_for(state, timeout_s=BY_NAME[name].bound_s + 10)
    if codes is not None:
        assert [found["code"] for found in change["diagnoses"]] == codes
    event_s = died_s(kit_user, since_s=hit_s) if state == "crashed" else hit_s
    settle(name, at_s - event_s, accept=accept)
    subprocess.run(["docker", "kill", *kit_user.containers()], check=False, capture_output=True)
    assert kit_user.run("down", "cpu-demo", "--name", kit_user.name).returncode == 0
    assert kit_user.leftovers() == []


FOREIGN = """
import http.server
class Yes(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{"data": [{"id": "somebody-elses"}]}'
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    do_POST = do_GET
http.server.ThreadingHTTPServer(("0.0.0.0", 30000), Yes).serve_forever()
"""


def test_a_foreign_listener_is_not_believed_and_the_taken_port_is_named(
    kit_user: KitUser, accept: bool
) -> None:
    """The engine finds its port taken only after the whole load, and then hangs."""

    def take_the_port() -> None:
        while not kit_user.containers():
            time.sleep(0.05)
        while subprocess.run(
            ["docker", "exec", "-d", kit_user.containers()[0], "python3", "-c", FOREIGN], check=False
        ).returncode:
            time.sleep(0.2)

    thread = threading.Thread(target=take_the_port)
    thread.start()
    told = up_engine(kit_user)
    thread.join()
    assert (told.exit_code, verdict_of(told.data)) == (7, BY_NAME["engine-port-taken"].verdict), told.lines
    assert kit_user.leftovers() == []
    settle("engine-port-taken", told.when("engine: ") - told.when("fatal: "), accept=accept)


def ask(user: KitUser, path: str, body: dict[str, Any], answers: list[requests.Response]) -> threading.Thread:
    """One request in the background; its answer goes into ``answers``."""
    url = f"http://127.0.0.1:{user.port}{path}"
    thread = threading.Thread(target=lambda: answers.append(requests.post(url, json=body, timeout=120)))
    thread.start()
    return thread


def test_a_wrong_model_name_is_answered_by_the_engine_and_not_taken_for_proof(kit_user: KitUser) -> None:
    assert up_engine(kit_user).exit_code == 0
    message = {"role": "user", "content": "Hello"}
    answers: list[requests.Response] = []
    ask(kit_user, "/v1/chat/completions", {"model": "nonsense", "messages": [message]}, answers).join()
    assert (answers[0].status_code, answers[0].json()["model"]) == (200, "nonsense")
    url = f"http://127.0.0.1:{kit_user.port}"
    wrong = prove_answer(Target(container_id="", folder="", url=url, model="nonsense"))
    right = prove_answer(Target(container_id="", folder="", url=url, model="demo"))
    assert (wrong.failure, right.failure) == ("/v1/models names ('demo',), not nonsense", None)
    assert kit_user.run("down", "cpu-demo", "--name", kit_user.name).returncode == 0


def to_generate(tokens: int) -> dict[str, Any]:
    """A request of exactly so many tokens."""
    sampling = {"max_new_tokens": tokens, "ignore_eos": True, "temperature": 0}
    return {"text": "Hello", "sampling_params": sampling}


def tokens_of(user: KitUser, *, seconds: float) -> int:
    """How many tokens keep this machine's server busy so long, as far as the context of 2,048 allows."""
    answers: list[requests.Response] = []
    begin = time.monotonic()
    ask(user, "/generate", to_generate(100), answers).join()
    return min(1900, int(100 * seconds / (time.monotonic() - begin)))


def test_down_finishes_what_is_in_flight_and_tells_it(kit_user: KitUser, accept: bool) -> None:
    """Requests that come after the SIGTERM are still served (measured, SGLang 0.5.16)."""
    assert up_engine(kit_user).exit_code == 0
    tokens = tokens_of(kit_user, seconds=15)
    answers: list[requests.Response] = []
    request = ask(kit_user, "/generate", to_generate(tokens), answers)
    time.sleep(1)
    run = kit_user.start("down", "cpu-demo", "--name", kit_user.name)
    told_s = run.wait_for("1 request in flight after ")
    late = ask(kit_user, "/generate", to_generate(4), answers)
    assert run.end() == 0, run.said
    request.join()
    late.join()
    assert [answer.status_code for answer in answers] == [200, 200]
    assert max(answer.json()["meta_info"]["completion_tokens"] for answer in answers) == tokens
    assert "at 60 s they are cut off" in run.said and "killed" not in run.said
    assert kit_user.leftovers() == []
    settle("engine-drains", time.time() - told_s, accept=accept)
