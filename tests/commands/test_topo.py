"""kitctl topo judges a text, a facts file and the host, draws it, and never guesses."""

from pathlib import Path

import pytest
from kitctl_process import KitUser

CASES = Path(__file__).parent.parent / "cases"
DGX1 = CASES / "hosts" / "13-v100-8x-dgx1-cpuaffinity-only.topo.txt"


def test_json_of_a_text(kit_user: KitUser) -> None:
    data = kit_user.json("topo", "--file", str(DGX1), "--gpus", "0-3")
    kept = ("links", "overlay", "reason", "gpu_count", "numa_nodes", "gpus", "nccl")
    assert {key: data[key] for key in kept} == {
        "links": "nvlink-full",
        "overlay": "nvlink",
        "reason": "all 6 pairs have NVLink (NV1 NV2)",
        "gpu_count": 8,
        "numa_nodes": 2,
        "gpus": [0, 1, 2, 3],
        "nccl": {},
    }
    assert data["islands"] == [
        {"kind": "nvlink", "gpus": [0, 1, 2, 3]},
        {"kind": "nvlink", "gpus": [4, 5, 6, 7]},
    ]
    assert [one["gpus"] for one in data["gpu_sets"]] == [[0], [0, 1], [0, 1, 2, 3], list(range(8))]


def test_drawing(kit_user: KitUser) -> None:
    done = kit_user.run("topo", "--file", str(CASES / "hosts" / "25-rtx4090-5x-mixed.topo.txt"))
    assert done.returncode == 0
    assert (
        done.stdout
        == """\
      GPU0* GPU1* GPU2* GPU3* GPU4*  NUMA  near CPUs
GPU0*     .   SYS   SYS   SYS   SYS     1  8-15,24-31
GPU1*   SYS     .   PHB  NODE  NODE     0  0-7,16-23
GPU2*   SYS   PHB     .  NODE  NODE     0  0-7,16-23
GPU3*   SYS  NODE  NODE     .   PHB     0  0-7,16-23
GPU4*   SYS  NODE  NODE   PHB     .     0  0-7,16-23

links    pcie: no pair of 10 has NVLink (NODE PHB SYS)
overlay  pcie
nccl     NCCL_P2P_LEVEL=SYS: the reserved GPUs are on several NUMA nodes
numa     2
island   numa    1-4
set      --gpus 0                one GPU
set      --gpus 1,2              one host bridge (PHB) at the farthest
set      --gpus 1-4              one NUMA node (NODE) at the farthest
"""
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("No devices were found\n", "no table of GPUs as 'nvidia-smi topo -m' prints it"),
        ("\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tSYS\t X\n", "the link between GPU0 and GPU1 is unreadable"),
    ],
)
def test_a_damaged_text_is_unknown(kit_user: KitUser, text: str, reason: str) -> None:
    damaged = kit_user.home / "topo.txt"
    damaged.write_text(text)
    data = kit_user.json("topo", "--file", str(damaged), exit_code=2)
    assert (data["links"], data["overlay"], data["reason"]) == (None, None, reason)


def test_facts_of_another_host(kit_user: KitUser) -> None:
    facts = str(CASES / "facts" / "nvlink-8x-b200.json")
    assert kit_user.json("topo", "--facts", facts)["links"] == "nvlink-full"
    assert kit_user.json("topo", "--facts", facts, "--gpus", "GPU-3")["links"] == "single"


def test_a_gpu_that_is_not_there(kit_user: KitUser) -> None:
    data = kit_user.json("topo", "--file", str(DGX1), "--gpus", "0,9", exit_code=2)
    assert data["reason"] == "the topology has no GPU9"
