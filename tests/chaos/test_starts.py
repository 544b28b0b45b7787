"""A start that fails is named within its bound, exits with its code, and leaves nothing behind."""

import pytest
from chaos.events import event_in_run, up
from chaos.faults import FAULTS, Fault
from chaos.measured import keep
from kitctl_process import KitUser

pytestmark = pytest.mark.docker


def verdict_of(data: dict[str, object]) -> str:
    """What ``up --json`` came to: the canary's finding, or the first diagnosis."""
    canary = data.get("canary")
    if isinstance(canary, dict) and canary.get("findings"):
        return str(canary["findings"][0]["code"])
    diagnoses = data.get("diagnoses")
    return str(diagnoses[0]["code"]) if isinstance(diagnoses, list) and diagnoses else "none"


@pytest.mark.parametrize("fault", FAULTS.starts, ids=[fault.name for fault in FAULTS.starts])
def test_start(fault: Fault, kit_user: KitUser, fault_server: str, accept: bool) -> None:
    told = up(kit_user, fault_server, fault.env, *fault.words)
    assert (told.exit_code, verdict_of(told.data)) == (fault.exit_code, fault.verdict), told.lines
    if fault.exit_code == 9:
        assert kit_user.run("down", "cpu-demo", "--name", kit_user.name).returncode == 0
        seconds = sum(phase["seconds"] for phase in told.data["phases"] if phase["name"] == "total")
    elif fault.exit_code == 8:
        seconds = told.when("engine: ") - told.when("start: ")
    else:
        seconds = told.when("engine: ") - event_in_run(kit_user, told)
    assert kit_user.leftovers() == []
    assert seconds <= fault.bound_s + 0.05
    if accept:
        keep(fault, verdict=fault.verdict, seconds=seconds)
