"""What happens to a serving stack is told within its bound, by its first cause, and recorded."""

from contextlib import contextmanager

import pytest
from chaos.events import event_in_container, up, watch
from chaos.faults import FAULTS, Fault
from chaos.measured import keep
from kitctl_process import KitUser

pytestmark = pytest.mark.docker
watching = contextmanager(watch)
SMALL = """\
services:
  engine:
    mem_limit: 96m
    memswap_limit: 96m
x-kitctl:
  summary: a memory limit that a rank reaches
"""


@pytest.mark.parametrize("fault", FAULTS.serving, ids=[fault.name for fault in FAULTS.serving])
def test_serving(fault: Fault, kit_user: KitUser, fault_server: str, accept: bool) -> None:
    kit_user.write_config("overlays/small.yaml", SMALL)
    told = up(kit_user, fault_server, fault.env | {"STUB_DELAY_S": "5"}, *fault.words)
    assert told.exit_code == 0, told.lines
    with watching(kit_user, "--every", "1", "--patience", "2") as watcher:
        watcher.wait_for("ready", timeout_s=10)
        state, *codes = fault.verdict.split()
        at_s, change = watcher.wait_for(state, timeout_s=30)
        seconds = at_s - event_in_container(kit_user)
    assert [found["code"] for found in change["diagnoses"]] == codes
    assert seconds <= fault.bound_s + 0.1
    assert kit_user.run("down", "cpu-demo", "--name", kit_user.name).returncode == 0
    assert kit_user.leftovers() == []
    if accept:
        keep(fault, verdict=fault.verdict, seconds=seconds)


def test_a_death_is_recorded_and_status_tells_it(kit_user: KitUser, fault_server: str) -> None:
    told = up(kit_user, fault_server, {"STUB_FAULT": "dies-while-serving", "STUB_DELAY_S": "3"})
    with watching(kit_user, "--every", "1", "--patience", "2", "--once") as watcher:
        watcher.wait_for("crashed", timeout_s=20)
    status = kit_user.json("status", "cpu-demo", "--name", kit_user.name, exit_code=7)
    assert [found["code"] for found in status["diagnoses"]] == ["cuda-kernel-fault"]
    run = kit_user.json("runs", "show", told.data["run"])["run"]
    assert (run["outcome"], run["exit_code"], run["diagnoses"][0]["code"]) == (
        "crashed",
        137,
        "cuda-kernel-fault",
    )
