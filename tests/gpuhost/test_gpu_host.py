"""The imitated GPU host behaves as the genuine one where kitctl looks."""

import subprocess
from pathlib import Path

import pytest
from gpuhost.gpu_host import IMAGE, GpuHost, write_nvidia_smi

pytestmark = pytest.mark.docker
PCIE = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
LIST_NODES = ("sh", "-c", "ls /dev | grep '^nvidia[0-9]'")


def shown(host: GpuHost, *words: str) -> list[str]:
    done = host.docker("run", "--rm", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_chosen_gpus_are_the_only_nodes_in_the_container(gpu_host: GpuHost) -> None:
    assert shown(gpu_host, "--gpus", '"device=4,5"', IMAGE, *LIST_NODES) == ["nvidia4", "nvidia5"]


def test_container_numbers_its_gpus_from_zero_and_keeps_their_uuids(gpu_host: GpuHost) -> None:
    assert shown(gpu_host, "--gpus", '"device=4,5"', IMAGE, "nvidia-smi", "-L") == [
        f"GPU 0: {PCIE} (UUID: GPU-00000000-0000-0000-0000-000000000004)",
        f"GPU 1: {PCIE} (UUID: GPU-00000000-0000-0000-0000-000000000005)",
    ]


def test_a_uuid_names_one_gpu(gpu_host: GpuHost) -> None:
    chosen = "device=GPU-00000000-0000-0000-0000-000000000007"
    assert shown(gpu_host, "--gpus", chosen, IMAGE, *LIST_NODES) == ["nvidia7"]


def test_all_and_count(gpu_host: GpuHost) -> None:
    assert len(shown(gpu_host, "--gpus", "all", IMAGE, *LIST_NODES)) == 8
    assert shown(gpu_host, "--gpus", "2", IMAGE, *LIST_NODES) == ["nvidia0", "nvidia1"]


def test_without_the_utility_capability_there_is_no_nvidia_smi(gpu_host: GpuHost) -> None:
    done = gpu_host.docker("run", "--rm", "--gpus", '"device=0","capabilities=compute"', IMAGE, "nvidia-smi")
    assert (done.returncode, "not found" in done.stderr) == (127, True)


def test_a_container_without_a_reservation_sees_none(gpu_host: GpuHost) -> None:
    done = gpu_host.docker("run", "--rm", IMAGE, *LIST_NODES)
    assert (done.returncode, done.stdout) == (1, "")


def test_cdi_device_is_the_only_node(gpu_host: GpuHost) -> None:
    assert shown(gpu_host, "--device", "nvidia.com/gpu=2", IMAGE, *LIST_NODES) == ["nvidia2"]
    assert len(shown(gpu_host, "--device", "nvidia.com/gpu=all", IMAGE, "nvidia-smi", "-L")) == 8


def test_unknown_gpu_fails_as_the_genuine_driver_does(gpu_host: GpuHost) -> None:
    done = gpu_host.docker("run", "--rm", "--gpus", "device=9", IMAGE, "true")
    assert done.returncode != 0
    assert "nvidia-container-cli: device error: 9: unknown device" in done.stderr


def test_unknown_cdi_device_is_unresolvable(gpu_host: GpuHost) -> None:
    done = gpu_host.docker("run", "--rm", "--device", "nvidia.com/gpu=9", IMAGE, "true")
    assert "CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=9" in done.stderr


def test_a_host_without_driver_refuses_both_ways(gpuless_host: GpuHost) -> None:
    hook = gpuless_host.docker("run", "--rm", "--gpus", "all", IMAGE, "true")
    cdi = gpuless_host.docker("run", "--rm", "--device", "nvidia.com/gpu=0", IMAGE, "true")
    assert 'could not select device driver "" with capabilities: [[gpu]]' in hook.stderr
    assert "unresolvable CDI devices nvidia.com/gpu=0" in cdi.stderr


def test_query_in_the_container_answers_csv(gpu_host: GpuHost) -> None:
    fields = "--query-gpu=index,name,memory.total,compute_cap,driver_version"
    argv = ("nvidia-smi", fields, "--format=csv,noheader,nounits")
    assert shown(gpu_host, "--gpus", "device=3", IMAGE, *argv) == [f"0, {PCIE}, 97887, 12.0, 580.126.09"]


def test_compose_services_reach_each_other_and_a_published_port_answers(
    gpu_host: GpuHost, tmp_path: Path
) -> None:
    compose = tmp_path / "compose.yaml"
    compose.write_text(
        f"""
name: kitgpu-net
services:
  web:
    image: {IMAGE}
    init: true
    pull_policy: never
    command: [httpd, -f, -p, "80", -h, /etc]
    ports: ["127.0.0.1::80"]
  ask:
    image: {IMAGE}
    pull_policy: never
    depends_on: [web]
    command: [sh, -c, "until wget -q -O - http://web/hostname; do sleep 0.2; done"]
"""
    )
    words = ["docker", "compose", "-f", str(compose)]
    kept = {"env": gpu_host.env, "capture_output": True, "text": True, "check": False}
    try:
        up = subprocess.run(
            [*words, "up", "-d"], env=gpu_host.env, capture_output=True, text=True, check=False
        )
        assert up.returncode == 0, up.stderr
        waited = gpu_host.docker("wait", "kitgpu-net-ask-1")
        assert waited.stdout.strip() == "0"
        port = gpu_host.docker("port", "kitgpu-net-web-1", "80").stdout.strip()
        page = subprocess.run(["curl", "-sf", f"http://{port}/hostname"], capture_output=True, check=False)
        assert page.returncode == 0
    finally:
        subprocess.run([*words, "down", "-t", "1"], **kept)


@pytest.mark.parametrize(
    ("gpu_class", "between_halves", "within"), [("pcie", "SYS", "PIX"), ("nvlink", "NV18", "NV18")]
)
def test_topology_follows_the_class(tmp_path: Path, gpu_class: str, between_halves: str, within: str) -> None:
    write_nvidia_smi(tmp_path / "nvidia-smi", count=8, gpu_class=gpu_class)  # type: ignore[arg-type]
    for index in (0, 1, 4):
        (tmp_path / f"nvidia{index}").touch()
    env = {"IMITATED_GPU_NODES": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [tmp_path / "nvidia-smi", "topo", "-m"], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[:4] == [
        "\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID",
        f"GPU0\t X \t{within}\t{between_halves}\t0-63\t0\t\tN/A",
        f"GPU1\t{within}\t X \t{between_halves}\t0-63\t0\t\tN/A",
        f"GPU2\t{between_halves}\t{between_halves}\t X \t64-127\t1\t\tN/A",
    ]


def test_nvidia_smi_without_a_node_says_that_the_driver_does_not_answer(tmp_path: Path) -> None:
    write_nvidia_smi(tmp_path / "nvidia-smi", count=8, gpu_class="pcie")
    env = {"IMITATED_GPU_NODES": str(tmp_path / "none"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([tmp_path / "nvidia-smi"], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (
        9,
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
        "Make sure that the latest NVIDIA driver is installed and running.\n\n",
    )
