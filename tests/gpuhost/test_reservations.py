"""The container of a stack gets exactly the GPUs that were planned, by the NVIDIA runtime and by CDI."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpuhost.gpu_host import GpuHost, running_gpu_host
from kitctl_process import KitUser, free_port
from stub_engine.image import stub_image

pytestmark = pytest.mark.docker
UUID = "GPU-00000000-0000-0000-0000-000000000005"
CHOICES = [
    ("0-7", 8, [0, 1, 2, 3, 4, 5, 6, 7]),
    ("4-7", 4, [4, 5, 6, 7]),
    (UUID, 1, [5]),
]
SHOW = "import os; print(*sorted(int(n[6:]) for n in os.listdir('/dev') if n[:6] == 'nvidia' and n[6:].isdigit()))"


@pytest.fixture(scope="module")
def cdi_host() -> Iterator[GpuHost]:
    """Eight GPUs that only a CDI spec knows."""
    with running_gpu_host(drivers=("cdi",)) as host:
        yield host


def user_of(host: GpuHost, home: Path) -> KitUser:
    """A user on the GPU host: its engine by DOCKER_HOST, its nvidia-smi on the PATH, its models in the store."""
    nodes = home / "dev"
    nodes.mkdir()
    for index in range(host.count):
        (nodes / f"nvidia{index}").touch()
    for model in ("moonshotai--Kimi-K2.6", "SubSir--Kimi-K2.6-DFlash-tmp-long"):
        (home / "store" / f"models--{model}").mkdir(parents=True)
    path = f"{host.nvidia_smi.parent}:{host.env['PATH']}"
    extra = {"DOCKER_HOST": host.docker_host, "PATH": path, "IMITATED_GPU_NODES": str(nodes)}
    return KitUser(home=home, name="gpu", port=free_port(), extra=extra)


def nodes_in_container(
    host: GpuHost, home: Path, *, gpus: str, tp: int, more: tuple[str, ...] = ()
) -> list[int]:
    """Render ep4-dflash, run it with plain compose, and list the device nodes that its container has."""
    user, folder = user_of(host, home), home / "rendered"
    words = ("--gpus", gpus, "--set", f"parallel.tp={tp}", "--set", "parallel.ep=1", "--port", str(user.port))
    image = stub_image(host.docker_host)
    done = user.run(
        "render", "ep4-dflash", *words, *more, "--name", user.name, "--image", image, "-o", str(folder)
    )
    assert done.returncode in (0, 3), done.stderr
    compose = ["docker", "compose", "--project-directory", str(folder)]
    kept = {"env": user.env, "cwd": folder, "capture_output": True, "text": True, "check": False}
    try:
        up = subprocess.run(["docker", "compose", "up", "-d"], **kept)
        assert up.returncode == 0, up.stderr
        shown = subprocess.run([*compose, "exec", "-T", "engine", "python3", "-c", SHOW], **kept)
        assert shown.returncode == 0, shown.stderr
        return [int(word) for word in shown.stdout.split()]
    finally:
        subprocess.run([*compose, "down", "-t", "1", "-v"], **kept)


@pytest.mark.parametrize(("gpus", "tp", "nodes"), CHOICES, ids=["all", "half", "uuid"])
def test_runtime_gives_exactly_the_planned_gpus(
    gpu_host: GpuHost, tmp_path: Path, gpus: str, tp: int, nodes: list[int]
) -> None:
    assert nodes_in_container(gpu_host, tmp_path, gpus=gpus, tp=tp) == nodes


@pytest.mark.parametrize(("gpus", "tp", "nodes"), CHOICES, ids=["all", "half", "uuid"])
def test_cdi_gives_exactly_the_planned_gpus(
    cdi_host: GpuHost, tmp_path: Path, gpus: str, tp: int, nodes: list[int]
) -> None:
    assert nodes_in_container(cdi_host, tmp_path, gpus=gpus, tp=tp) == nodes


def test_an_add_on_overlay_adds_no_second_request(gpu_host: GpuHost, tmp_path: Path) -> None:
    text = "services: {engine: {environment: {ADDED: yes}}}\nx-kitctl: {summary: mine}\n"
    for name in ("one", "two"):
        place = tmp_path / "config/kitctl/overlays"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}.yaml").write_text(text)
    more = ("--add", "one", "--add", "two")
    assert nodes_in_container(gpu_host, tmp_path, gpus="2,3", tp=2, more=more) == [2, 3]


def test_the_overlay_follows_the_links(gpu_host: GpuHost, nvlink_host: GpuHost, tmp_path: Path) -> None:
    plans = {}
    for name, host in (("pcie", gpu_host), ("nvlink", nvlink_host)):
        (tmp_path / name).mkdir()
        plans[name] = user_of(host, tmp_path / name).json("plan", "ep4-dflash", exit_code=3)
    assert {name: plan["overlays"] for name, plan in plans.items()} == {
        "pcie": ["pcie"],
        "nvlink": ["nvlink"],
    }
    assert {name: plan["gpus"]["driver"] for name, plan in plans.items()} == {
        "pcie": "nvidia",
        "nvlink": "nvidia",
    }
