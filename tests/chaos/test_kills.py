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
