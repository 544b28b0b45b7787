"""What only a GPU host shows, on an imitated one: lost GPUs, a full GPU, a broken drafter."""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from chaos.events import Told, settings, watch
from chaos.measured import settle
from chaos.test_starts import verdict_of
from gpuhost.gpu_host import NVIDIA_MAJOR, GpuHost
from gpuhost.test_reservations import user_of
from kitctl_process import KitUser
from stub.image import fault_image

pytestmark = [pytest.mark.docker, pytest.mark.slow]
watching = contextmanager(watch)
DEVICE_GROUPS = Path("/sys/fs/cgroup/devices")
PLAIN = """\
summary: a stack on two GPUs
model: kitctl/demo
engine: {context_length: 2048}
serve: {model_name: demo}
parallel: {tp: 2}
"""
DRAFTING = PLAIN + "drafter: {model: kitctl/demo, algorithm: EAGLE}\nexpect: {accept_length_min: 2.5}\n"


@pytest.fixture(scope="module")
def image(gpu_host: GpuHost) -> str:
    """The fault server on the imitated host's engine."""
    return fault_image(gpu_host.docker_host)


@pytest.fixture
def gpu_user(gpu_host: GpuHost, tmp_path: Path) -> Iterator[KitUser]:
    """A user of the imitated host with the stacks ``plain`` and ``drafting``."""
    user = user_of(gpu_host, tmp_path)
    user.write_config("stacks/plain.yaml", PLAIN)
    user.write_config("stacks/drafting.yaml", DRAFTING)
    try:
        yield user
    finally:
        for stack in ("plain", "drafting"):
            user.run("down", stack, "--name", user.name)


def up(user: KitUser, stack: str, image: str, env: dict[str, str], *words: str) -> Told:
    """``kitctl up STACK --json`` to its end."""
    begun_s = time.time()
    done = user.run(*user.up("--image", image, *settings(env), *words, "--json", stack=stack))
    lines = [(begun_s, line) for line in done.stderr.splitlines()]
    return Told(exit_code=done.returncode, lines=lines, data=json.loads(done.stdout))


@pytest.mark.skipif(not DEVICE_GROUPS.is_dir(), reason="device rules are no files under cgroup v2")
def test_gpus_taken_from_a_running_container_are_told_and_come_back_with_a_restart(
    gpu_host: GpuHost, gpu_user: KitUser, image: str, accept: bool
) -> None:
    words = ("plain", "--name", gpu_user.name)
    assert up(gpu_user, "plain", image, {}).exit_code == 0
    container = gpu_host.docker("ps", "-q", "--no-trunc").stdout.strip()
    with watching(gpu_user, "--every", "1", "--gpus-every", "1", stack="plain") as watcher:
        watcher.wait_for("ready", timeout_s=10)
        taken_s = time.time()
        (DEVICE_GROUPS / "docker" / container / "devices.deny").write_text(f"c {NVIDIA_MAJOR}:* rwm")
        at_s, change = watcher.wait_for("degraded", timeout_s=20)
    assert [found["code"] for found in change["diagnoses"]] == ["gpus-lost-from-container"]
    status = gpu_user.json("status", *words, exit_code=9)
    assert (status["state"], status["healthy"]) == ("degraded", True)
    assert status["gpu_failure"] == "Failed to initialize NVML: Unknown Error"
    assert [found["code"] for found in status["diagnoses"]] == ["gpus-lost-from-container"]
    settle("gpus-lost", at_s - taken_s, accept=accept)
    assert gpu_user.run("restart", *words).returncode == 0
    assert gpu_user.json("status", *words)["gpu_failure"] is None


def test_a_server_on_a_full_gpu_holds_far_fewer_tokens_than_planned(
    gpu_user: KitUser, image: str, accept: bool
) -> None:
    told = up(gpu_user, "plain", image, {"STUB_LOG": "gpu-memory-short-at-start.log"})
    (found,) = told.data["found"]
    assert (told.exit_code, found["code"]) == (0, "kv-capacity-low"), told.lines
    assert "453566 KV tokens" in found["cause"] and "the plan says" in found["cause"]
    run = gpu_user.json("runs", "show", told.data["run"])["run"]
    assert (run["kv_tokens"], [one["code"] for one in run["findings"]]) == (453566, ["kv-capacity-low"])
    settle("kv-capacity-low", total_s(told), accept=accept)


def test_more_tokens_than_the_engine_holds_are_told(gpu_user: KitUser, image: str, accept: bool) -> None:
    """SGLang caps --max-total-tokens without a word."""
    env = {"STUB_LOG": "gpu-memory-short-at-start.log"}
    told = up(gpu_user, "plain", image, env, "--set", "engine.max_total_tokens=9000000")
    assert "kv-tokens-capped" in [found["code"] for found in told.data["found"]], told.lines
    settle("kv-tokens-capped", total_s(told), accept=accept)


def test_what_still_holds_gpu_memory_after_down_is_named_and_left_alone(
    gpu_user: KitUser, image: str, accept: bool
) -> None:
    assert up(gpu_user, "plain", image, {}).exit_code == 0
    begun_s = time.time()
    nodes = gpu_user.home / "dev"
    (nodes / "nvidia1").write_text("22000\n")
    with subprocess.Popen(["sleep", "600"]) as orphan:
        uuid = "GPU-00000000-0000-0000-0000-000000000001"
        (nodes / "apps").write_text(f"{uuid}, {orphan.pid}, sglang::scheduler, 21500 MiB\n")
        words = ("down", "plain", "--name", gpu_user.name)
        down = gpu_user.json(*words, "--free-within", "2")
        assert orphan.poll() is None
        orphan.kill()
    (left,) = down["left"]
    assert left == (f"GPU 1 holds 22000 MiB more than before the start: sglang::scheduler (pid {orphan.pid})")
    settle("gpu-memory-held", time.time() - begun_s, accept=accept)


def test_down_waits_until_gpu_memory_is_free(gpu_user: KitUser, image: str, accept: bool) -> None:
    assert up(gpu_user, "plain", image, {}).exit_code == 0
    node = gpu_user.home / "dev" / "nvidia0"
    node.write_text("22000\n")
    run = gpu_user.start("down", "plain", "--name", gpu_user.name)
    run.wait_for("waiting up to 60 s: GPU 0 holds 22000 MiB more than before the start")
    assert run.process.poll() is None
    freed_s = time.time()
    node.write_text("")
    assert run.end() == 0
    assert "left" not in run.said
    settle("gpu-memory-freed-late", time.time() - freed_s, accept=accept)


@pytest.mark.parametrize(
    ("name", "env", "exit_code", "verdict"),
    [
        ("drafter-broken", {"STUB_FAULT": "drafter-broken"}, 9, "drafter-broken"),
        ("drafter-weak", {"STUB_FAULT": "drafter-weak"}, 9, "accept-length-low"),
        ("drafter-sound", {}, 0, "none"),
    ],
)
def test_a_drafter_is_proven_by_what_is_accepted(
    name: str, env: dict[str, str], exit_code: int, verdict: str, gpu_user: KitUser, image: str, accept: bool
) -> None:
    told = up(gpu_user, "drafting", image, env)
    assert (told.exit_code, verdict_of(told.data)) == (exit_code, verdict), told.lines
    status = gpu_user.json("status", "drafting", "--name", gpu_user.name)
    assert status["healthy"], "a finding leaves the stack up"
    settle(name, total_s(told), accept=accept)


def total_s(told: Told) -> float:
    """Seconds from the command to the first answer."""
    return next(phase["seconds"] for phase in told.data["phases"] if phase["name"] == "total")
