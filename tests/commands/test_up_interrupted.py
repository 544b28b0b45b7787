"""``kitctl up`` stopped, killed or doubled at any moment: the engine is as before, and the next up works."""

import json
import signal
import subprocess
import time
from datetime import datetime

import pytest
from kitctl_process import KitUser, docker

pytestmark = pytest.mark.docker
SLOW = ("--set", 'environment.STUB_STEP_S="0.4"')
# What stderr says when a phase begins: the image is there, the model is there, the container was made ...
MOMENTS = [(phase, signal.SIGINT) for phase in ("image:", "model:", "start:", "weights ...", "ready ...")]
MOMENTS += [(phase, signal.SIGTERM) for phase in ("model:", "weights ...")]


def setting(**values: str) -> tuple[str, ...]:
    return tuple(
        word for name, value in values.items() for word in ("--set", f"environment.STUB_{name}='{value}'")
    )


@pytest.mark.parametrize(("phase", "ending"), MOMENTS, ids=lambda value: getattr(value, "name", value))
def test_an_interrupt_in_each_phase_leaves_nothing(
    kit_user: KitUser, stub: str, phase: str, ending: signal.Signals
) -> None:
    mode = setting(MODE="never-ready") if phase == "ready ..." else setting(STEP_S="0.3")
    running = kit_user.start(*kit_user.up("--image", stub, *mode))
    running.wait_for(phase)
    running.send(ending)
    assert (running.end(), kit_user.leftovers()) == (130, [])
    assert running.lines[-1][1] == "interrupted"


def test_what_is_ready_stays_up_when_its_judging_is_interrupted_and_that_is_told(
    kit_user: KitUser, stub: str
) -> None:
    running = kit_user.start(*kit_user.up("--image", stub, *setting(ANSWER_S="60")))
    running.wait_for("ready ...")
    deadline = time.monotonic() + 30
    while "asked once more" not in docker("logs", *kit_user.containers()):
        assert time.monotonic() < deadline, running.said
        time.sleep(0.02)
    running.send(signal.SIGINT)
    assert running.end() == 130
    words = f"cpu-demo --name {kit_user.name}"
    assert [line for _, line in running.lines[-2:]] == [
        f"cpu-demo stays up: it was ready before; kitctl down {words} ends it",
        "interrupted",
    ]
    assert kit_user.run("down", *words.split()).returncode == 0
    assert kit_user.leftovers() == []


def test_up_works_after_an_interrupt_and_its_record_tells_of_it(kit_user: KitUser, stub: str) -> None:
    running = kit_user.start(*kit_user.up("--image", stub, *SLOW))
    running.wait_for("distributed ...")
    running.send(signal.SIGINT)
    assert running.end() == 130
    record = json.loads(next(kit_user.state.glob("runs/*/record.json")).read_text())
    assert (record["outcome"], record["stack"], record["ready"]) == ("interrupted", "cpu-demo", None)
    assert kit_user.run(*kit_user.up("--image", stub)).returncode == 0
    assert kit_user.run("down", "cpu-demo", "--name", kit_user.name).returncode == 0
    assert kit_user.leftovers() == []


def test_a_killed_up_leaves_a_loading_container_which_the_next_up_adopts(
    kit_user: KitUser, stub: str
) -> None:
    words = kit_user.up("--image", stub, *SLOW)
    running = kit_user.start(*words)
    running.wait_for("started ...")
    running.send(signal.SIGKILL)
    running.end()
    before = docker("ps", "-q", "--no-trunc", "--filter", f"name={kit_user.name}")
    again = kit_user.json(*words)
    after = docker("ps", "-q", "--no-trunc", "--filter", f"name={kit_user.name}")
    assert (again["outcome"], after) == ("ready", before)
    record = json.loads((kit_user.state / "runs" / again["run"] / "record.json").read_text())
    assert (record["outcome"], record["container_id"]) == ("ready", before)


def test_a_loading_container_without_its_record_is_adopted_too(kit_user: KitUser, stub: str) -> None:
    words = kit_user.up("--image", stub, *SLOW)
    running = kit_user.start(*words)
    running.wait_for("started ...")
    running.send(signal.SIGKILL)
    running.end()
    next(kit_user.state.glob("runs/*/record.json")).write_text('{"schema": "kitctl.run/1", "id": ')
    again = kit_user.json(*words)
    assert again["outcome"] == "ready"
    assert kit_user.json(*words)["outcome"] == "already-up"
    status = kit_user.json("status", "cpu-demo", "--name", kit_user.name)
    assert (status["state"], status["drift"], status["run"]) == ("ready", [], again["run"])


def test_a_second_up_is_refused_at_once_and_told_who_works_there(kit_user: KitUser, stub: str) -> None:
    words = kit_user.up("--image", stub, *SLOW)
    first = kit_user.start(*words)
    first.wait_for("started ...")
    second = kit_user.run(*words)
    assert (second.returncode, second.stdout) == (3, "")
    assert second.stderr.splitlines() == [
        f"kitctl: another kitctl works on kitctl-cpu-demo--{kit_user.name} (stack-busy)",
        f"  seen: pid {first.process.pid}: kitctl up cpu-demo",
        "  do:   let it end, or wait for it with --wait-lock SECONDS",
    ]
    third = kit_user.run(*words, "--wait-lock", "60", "--json")
    assert (third.returncode, json.loads(third.stdout)["outcome"]) == (0, "already-up")
    assert first.end() == 0


@pytest.mark.parametrize("at", ["started", "weights", "ready"])
def test_a_container_that_dies_while_loading_is_reported_within_a_second(
    kit_user: KitUser, stub: str, at: str
) -> None:
    mode = setting(MODE="crash", AT=at, CODE="77", STEP_S="0.2")
    events = subprocess.Popen(
        ["docker", "events", "--filter", "event=die", "--format", "{{json .}}"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        running = kit_user.start(*kit_user.up("--image", stub, *mode))
        told_s = running.wait_for("engine: ended with exit code 77")
        assert (running.end(), kit_user.leftovers()) == (7, [])
        died_s = _died_s(events, kit_user.name)
    finally:
        events.kill()
        events.communicate()
    print(f"told {told_s - died_s:.3f} s after the death of the container ({at})")
    assert told_s - died_s < 1.0


def _died_s(events: subprocess.Popen[str], name: str) -> float:
    assert events.stdout is not None
    for line in events.stdout:
        event = json.loads(line)
        if name in event["Actor"]["Attributes"]["name"]:
            return float(event["timeNano"]) / 1e9
    raise AssertionError("docker told of no death")


def test_a_crash_is_diagnosed_recorded_and_cleared_away(kit_user: KitUser, stub: str) -> None:
    last = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB."
    mode = setting(MODE="crash", AT="weights", CODE="3", LAST=last)
    said = kit_user.json(*kit_user.up("--image", stub, *mode), exit_code=7)
    assert (said["outcome"], len(said["diagnoses"]) > 0) == ("crashed", True)
    record = json.loads((kit_user.state / "runs" / said["run"] / "record.json").read_text())
    assert (record["outcome"], record["exit_code"], record["oom_killed"]) == ("crashed", 3, False)
    assert datetime.fromisoformat(record["started"]) < datetime.fromisoformat(record["ended"])
    kept = kit_user.run("logs", "cpu-demo", "--name", kit_user.name)
    assert (kept.returncode, last in kept.stdout) == (0, True)
    assert kit_user.leftovers() == []


def test_a_start_that_hangs_ends_at_its_deadline_and_is_removed(kit_user: KitUser, stub: str) -> None:
    mode = setting(MODE="hang", AT="weights", DEAF="1")
    done = kit_user.run(*kit_user.up("--image", stub, *mode, "--timeout", "2"))
    assert (done.returncode, kit_user.leftovers()) == (8, [])
    assert "engine: not ready within 2 s; it stands in phase weights" in done.stderr
    assert "not ready within 2 s; it stands in phase weights; the container was removed" in done.stdout


def test_a_server_that_logs_ready_and_never_answers_ends_at_its_deadline(
    kit_user: KitUser, stub: str
) -> None:
    done = kit_user.run(
        *kit_user.up("--image", stub, *setting(MODE="never-ready"), "--timeout", "2", "--json")
    )
    assert (done.returncode, json.loads(done.stdout)["outcome"]) == (8, "failed")
    assert kit_user.leftovers() == []
