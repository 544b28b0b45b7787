"""Links are classed for the GPUs meant, grouped into islands, and the nearest GPUs are proposed."""

from pathlib import Path

import pytest

from kitctl.host.facts import Link, Topology
from kitctl.host.read_topology import read_topology
from kitctl.host.topology import (
    GpuSet,
    Island,
    IslandKind,
    LinkClass,
    Verdict,
    best_gpu_set,
    classify,
    islands,
    propose_gpu_sets,
    spans_numa_nodes,
)

HOSTS = Path(__file__).parent.parent / "cases" / "hosts"


def topology_of(case: str) -> Topology:
    topology = read_topology((HOSTS / f"{case}.topo.txt").read_text())
    assert isinstance(topology, Topology)
    return topology


DGX1 = topology_of("13-v100-8x-dgx1-cpuaffinity-only")
MIXED = topology_of("25-rtx4090-5x-mixed")
SWITCHES = topology_of("01-rtxpro6000-8x-2socket-broadcom")


def test_the_verdict_is_about_the_reserved_gpus() -> None:
    assert classify(DGX1, range(8)) == Verdict(
        links=LinkClass.NVLINK_PARTIAL, reason="16 of 28 pairs have NVLink; GPU0 and GPU5 are SYS"
    )
    assert classify(DGX1, (0, 1, 2, 3)) == Verdict(
        links=LinkClass.NVLINK_FULL, reason="all 6 pairs have NVLink (NV1 NV2)"
    )
    assert classify(DGX1, (0, 5)) == Verdict(links=LinkClass.PCIE, reason="the pair has no NVLink (SYS)")
    assert classify(DGX1, (0, 4)).reason == "the pair has NVLink (NV2)"
    assert classify(DGX1, (6,)).links is LinkClass.SINGLE


def test_gpus_that_the_table_lacks_leave_it_open() -> None:
    assert classify(DGX1, (7, 8)) == Verdict(links=None, reason="the topology has no GPU8")
    assert classify(DGX1, ()) == Verdict(links=None, reason="no GPU")


def test_islands_by_switch_and_numa_node() -> None:
    assert islands(SWITCHES) == (
        *(Island(kind=IslandKind.SWITCH, gpus=pair) for pair in ((0, 1), (2, 3), (4, 5), (6, 7))),
        Island(kind=IslandKind.NUMA, gpus=(0, 1, 2, 3)),
        Island(kind=IslandKind.NUMA, gpus=(4, 5, 6, 7)),
    )
    assert islands(MIXED) == (Island(kind=IslandKind.NUMA, gpus=(1, 2, 3, 4)),)
    assert [island.gpus for island in islands(DGX1)] == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_proposed_sets_keep_to_one_socket_while_they_can() -> None:
    assert propose_gpu_sets(MIXED) == (
        GpuSet(gpus=(0,), farthest=None, reason="one GPU"),
        GpuSet(gpus=(1, 2), farthest=Link.PHB, reason="one host bridge (PHB) at the farthest"),
        GpuSet(gpus=(1, 2, 3, 4), farthest=Link.NODE, reason="one NUMA node (NODE) at the farthest"),
    )
    assert best_gpu_set(DGX1, 4, among=range(8)) == GpuSet(
        gpus=(0, 1, 2, 3), farthest=Link.NV, reason="NVLink at the farthest"
    )
    assert best_gpu_set(SWITCHES, 2, among=(1, 3, 4, 5)) == GpuSet(
        gpus=(4, 5), farthest=Link.PIX, reason="one PCIe switch (PIX) at the farthest"
    )
    assert best_gpu_set(MIXED, 8, among=MIXED.gpu_indices) is None


@pytest.mark.parametrize(
    ("topology", "gpus", "spans"),
    [
        (SWITCHES, (0, 3), False),
        (SWITCHES, (0, 4), True),
        (MIXED, (0, 1), True),
        (MIXED, (1, 4), False),
        (DGX1, (0, 4), None),
        (DGX1, (0, 5), True),
        (SWITCHES, (0, 9), None),
    ],
)
def test_whether_gpus_span_numa_nodes(topology: Topology, gpus: tuple[int, ...], spans: bool | None) -> None:
    assert spans_numa_nodes(topology, gpus) is spans
