"""A start that fails is named within its bound, exits with its code, and leaves nothing behind."""

import subprocess

import pytest
from chaos.events import event_in_run, up
from chaos.faults import FAULTS, Fault
from chaos.measured import keep
from kitctl_process import KitUser, docker

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
        begun_s = event_in_run(kit_user, told) if fault.verdict == "load-stalled" else told.when("start: ")
        seconds = told.when("engine: ") - begun_s
    else:
        seconds = told.when("engine: ") - event_in_run(kit_user, told)
    assert kit_user.leftovers() == []
    assert seconds <= fault.bound_s + 0.05
    if accept:
        keep(fault, verdict=fault.verdict, seconds=seconds)


def test_a_compiler_that_runs_for_longer_than_a_stall_may_last_is_waited_for(
    kit_user: KitUser, fault_server: str
) -> None:
    env = {"STUB_FAULT": "compiles", "STUB_COMPILE_S": "10"}
    told = up(kit_user, fault_server, env, "--stall-after", "6")
    assert (told.exit_code, told.data["outcome"]) == (0, "ready"), told.lines
    assert any("compiling: ptxas runs: kernels are being compiled" in line for _, line in told.lines)
    assert kit_user.run("down", "cpu-demo", "--name", kit_user.name).returncode == 0


def test_far_fewer_kv_tokens_than_the_last_run_are_told(kit_user: KitUser, fault_server: str) -> None:
    """The same plan and image reference twice; the second engine holds a quarter."""
    reference = f"kitctl-capacity:{kit_user.name}"
    found = []
    try:
        for tokens in (65536, 16384):
            text = f"FROM {fault_server}\nENV STUB_KV_TOKENS={tokens}\n"
            subprocess.run(["docker", "build", "-q", "-t", reference, "-"], input=text, text=True, check=True)
            told = up(kit_user, reference, {})
            assert told.exit_code == 0, told.lines
            found.append([(one["code"], one["cause"]) for one in told.data["found"]])
            assert kit_user.run("down", "cpu-demo", "--name", kit_user.name).returncode == 0
    finally:
        docker("image", "rm", reference)
    low = "the engine holds 16384 KV tokens, 25% of what the last run here says (65536)"
    assert found[0] == [] and found[1][1:] == [("kv-capacity-low", low)]
