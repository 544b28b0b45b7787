"""The overlay follows from the links of the reserved GPUs, with its reason and NCCL's level by name."""

from pathlib import Path

import pytest

from kitctl.edge.kit_files import find_kit, load_kit_texts
from kitctl.errors import KitError
from kitctl.host.facts import Topology
from kitctl.host.read_topology import read_topology
from kitctl.host.topology import LinkClass
from kitctl.kit.catalog import load_overlays
from kitctl.plan.overlay_choice import choose_overlay

ROOT = Path(__file__).parent.parent
OVERLAYS = tuple(load_overlays(load_kit_texts(find_kit(str(ROOT.parent)))).values())


def topology_of(case: str) -> Topology:
    topology = read_topology((ROOT / "cases" / "hosts" / f"{case}.topo.txt").read_text())
    assert isinstance(topology, Topology)
    return topology


DGX1 = topology_of("13-v100-8x-dgx1-cpuaffinity-only")


@pytest.mark.parametrize(
    ("case", "gpus", "overlay", "level"),
    [
        ("04-rtxpro6000-8x-2socket-direct", range(8), "pcie", "SYS"),
        ("04-rtxpro6000-8x-2socket-direct", range(4), "pcie", "PHB"),
        ("02-rtxpro6000-8x-1socket-2switch", range(8), "pcie", "PHB"),
        ("08-rtx3090-8x-2socket-node", (3, 4), "pcie", "SYS"),
        ("13-v100-8x-dgx1-cpuaffinity-only", range(8), "pcie", "SYS"),
        ("13-v100-8x-dgx1-cpuaffinity-only", range(4), "nvlink", None),
        ("22-nv18-8x-no-nic", range(8), "nvlink", None),
        ("22-nv18-8x-no-nic", (5,), "pcie", None),
    ],
)
def test_overlay_and_level(case: str, gpus: range, overlay: str, level: str | None) -> None:
    choice = choose_overlay(topology_of(case), gpus, OVERLAYS)
    assert choice.name == overlay
    assert choice.environment == ({"NCCL_P2P_LEVEL": level} if level else {})


def test_the_reason_names_the_links() -> None:
    choice = choose_overlay(topology_of("04-rtxpro6000-8x-2socket-direct"), range(8), OVERLAYS)
    assert choice.reason == "no pair of 28 has NVLink (PHB SYS)"
    assert choice.environment_reasons == {"NCCL_P2P_LEVEL": "the reserved GPUs are on several NUMA nodes"}


def test_a_named_overlay_overrules_and_says_so() -> None:
    choice = choose_overlay(DGX1, range(8), OVERLAYS, forced="nvlink")
    assert (choice.name, choice.is_forced, choice.links) == ("nvlink", True, LinkClass.NVLINK_PARTIAL)
    assert choice.reason == (
        "asked for; by its links (nvlink-partial): 16 of 28 pairs have NVLink; GPU0 and GPU5 are SYS"
    )


def test_an_unknown_overlay_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(KitError) as failed:
        choose_overlay(DGX1, range(8), OVERLAYS, forced="nvlnk")
    assert failed.value.cause == "there is no overlay 'nvlnk'; did you mean 'nvlink'?"


def test_unknown_links_choose_nothing() -> None:
    choice = choose_overlay(None, range(8), OVERLAYS)
    assert (choice.name, choice.links) == (None, None)
    assert choice.reason == "the links of the host's GPUs are unknown"
    assert choose_overlay(None, (3,), OVERLAYS).name == "pcie"
