"""kitctl is killed at any moment; the same command afterwards ends as if nothing had happened."""

import json
import random
import signal
import time

import pytest
from chaos.events import settings
from kitctl_process import KitUser, docker

pytestmark = pytest.mark.docker
POINTS = 20
LOAD = {"STUB_STEP_S": "0.25"}
LONGEST_S = 6.0


@pytest.mark.parametrize("point", range(POINTS))
def test_up_killed_and_repeated(point: int, kit_user: KitUser, fault_server: str) -> None:
    delay_s = LONGEST_S * (point + random.Random(point).random()) / POINTS
    words = kit_user.up("--image", fault_server, *settings(LOAD))
    first = kit_user.start(*words)
    time.sleep(delay_s)
    first.send(signal.SIGKILL)
    first.process.communicate()
    for record in kit_user.state.glob("runs/*/record.json"):
        json.loads(record.read_text())
    done = kit_user.run(*words)
    assert done.returncode == 0, done.stderr
    assert len(kit_user.containers()) == 1
    state = docker("inspect", "--format", "{{.State.Status}}", kit_user.containers()[0])
    assert state == "running"
    runs = kit_user.json("runs", "list")["runs"]
    assert [run["outcome"] for run in runs][:1] == ["ready"]
    assert "starting" not in [run["outcome"] for run in runs]
    assert kit_user.run("down", "cpu-demo", "--name", kit_user.name).returncode == 0
    assert kit_user.leftovers() == []


@pytest.mark.parametrize("point", range(4))
@pytest.mark.parametrize(
    ("verb", "longest_s"),
    [("down", 2.0), ("restart", 4.0), ("up --replace", 5.0)],
    ids=["down", "restart", "replace"],
)
def test_other_verbs_killed_and_repeated(
    verb: str, longest_s: float, point: int, kit_user: KitUser, fault_server: str
) -> None:
    env = settings({"STUB_FAULT": "slow-stop", "STUB_STEP_S": "0.1"})
    up = kit_user.up("--image", fault_server, *env)
    assert kit_user.run(*up).returncode == 0
    named = ("cpu-demo", "--name", kit_user.name)
    other = (*up, "--set", "environment.OTHER=plan", "--replace")
    words = other if verb == "up --replace" else (verb, *named)
    first = kit_user.start(*words)
    time.sleep(longest_s * (point + random.Random(point).random()) / 4)
    first.send(signal.SIGKILL)
    first.process.communicate()
    done = kit_user.run(*words)
    assert done.returncode == 0, done.stderr
    if verb != "down":
        assert kit_user.json("status", *named)["healthy"]
        assert "starting" not in [run["outcome"] for run in kit_user.json("runs", "list")["runs"]]
        assert kit_user.run("down", *named).returncode == 0
    assert kit_user.leftovers() == []
    assert kit_user.json("runs", "list")["runs"][0]["outcome"] == "stopped"
