"""Can the reserved GPUs reach each other as their links promise: P2P, IOMMU, ACS, overlay?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from kitctl.finding import Finding, Severity
from kitctl.host.facts import HostFacts, Topology
from kitctl.host.topology import LinkClass, classify, link_between
from kitctl.plan.host_need import HostNeed, reserved_gpus
from kitctl.plan.host_tables import HostTables

_TRANSLATES = ("intel_iommu=on", "amd_iommu=on", "iommu=force", "iommu.passthrough=0", "iommu=nopt")
_NVLINKS_OF_A_GPU = 18
_PASSES = ("iommu=pt", "iommu=off", "intel_iommu=off", "amd_iommu=off", "iommu.passthrough=1")


def check_links(facts: HostFacts, need: HostNeed | None, tables: HostTables) -> Iterator[Finding]:
    """Findings on the paths between the reserved GPUs (all of the host's without a need)."""
    indices = tuple(gpu.index for gpu in reserved_gpus(facts, need or HostNeed()))
    if facts.topology is None or len(indices) < 2:
        return
    links = classify(facts.topology, indices).links
    yield from _check_overlay(links, need, tables)
    yield from _check_p2p(facts.topology, indices, tables)
    if links is LinkClass.NVLINK_FULL:
        yield from _check_fabric_manager(facts, facts.topology, indices, tables)
    if links in (LinkClass.PCIE, LinkClass.NVLINK_PARTIAL):
        yield from _check_pcie_path(facts, tables)


def _check_overlay(links: LinkClass | None, need: HostNeed | None, tables: HostTables) -> Iterator[Finding]:
    if need is None or need.overlay is None or links is None or not need.overlay_links:
        return
    if links not in need.overlay_links:
        serves = f"{need.overlay} serves {' '.join(need.overlay_links)}"
        yield tables.book.tell("overlay-against-links", serves, overlay=need.overlay, links=links)


def _check_p2p(topology: Topology, indices: tuple[int, ...], tables: HostTables) -> Iterator[Finding]:
    """Reads and writes must both be allowed. One finding for PCIe pairs and one for NVLink pairs."""
    refused: dict[str, list[str]] = {}
    for a, b in combinations(indices, 2):
        if not _is_refused(topology, a, b):
            continue
        link = link_between(topology, a, b)
        code = "nvlink-p2p-refused" if (link or "").startswith("NV") else "p2p-refused-by-driver"
        refused.setdefault(code, []).append(f"GPU{a}-GPU{b} ({link}): {_status(topology, a, b)}")
    for code, pairs in refused.items():
        statuses = " ".join(sorted({pair.rpartition(" ")[2] for pair in pairs}))
        yield tables.book.tell(code, *pairs[:4], where="topology", statuses=statuses)


def _is_refused(topology: Topology, a: int, b: int) -> bool:
    if a not in topology.gpu_indices or b not in topology.gpu_indices:
        return False
    at, to = topology.gpu_indices.index(a), topology.gpu_indices.index(b)
    tables = (topology.p2p_read_ok, topology.p2p_write_ok)
    return any(table[x][y] is False for table in tables if table for x, y in ((at, to), (to, at)))


def _status(topology: Topology, a: int, b: int) -> str:
    if topology.p2p_status is None:
        return "refused"
    row = topology.p2p_status[topology.gpu_indices.index(a)]
    return row[topology.gpu_indices.index(b)] or "unknown"


def _check_fabric_manager(
    facts: HostFacts, topology: Topology, indices: tuple[int, ...], tables: HostTables
) -> Iterator[Finding]:
    """GPUs that tell no fabric state (A100) on NVSwitch, whose manager is not running.

    More NVLinks to its peers than the 18 that a GPU has at most: then they lead to switches.
    """
    first = [link_between(topology, indices[0], other) or "" for other in indices[1:]]
    to_peers = sum(int(link.removeprefix("NV")) for link in first if link.removeprefix("NV").isdigit())
    silent = all(gpu.fabric_state is None for gpu in facts.gpus or () if gpu.index in indices)
    if facts.fabric_manager_active is False and silent and to_peers > _NVLINKS_OF_A_GPU:
        yield tables.book.tell(
            "fabric-manager-down",
            "nvidia-fabricmanager is not active, and the GPUs tell no fabric state",
            where="fabric_manager_active",
            severity=Severity.WARN,
            index=indices[0],
            state="not known to be up",
        )


def _check_pcie_path(facts: HostFacts, tables: HostTables) -> Iterator[Finding]:
    words = (facts.kernel_command_line or "").split()
    told = [word for word in words if word in _TRANSLATES]
    if told and not any(word in _PASSES for word in words):
        yield tables.book.tell("iommu-translates", f"kernel command line: {' '.join(told)}", where="kernel")
    bridges = facts.acs_redirect_bridges or ()
    if bridges:
        yield tables.book.tell(
            "acs-redirect",
            f"ReqRedir+ or CmpltRedir+ on {' '.join(bridges[:8])}",
            where="pcie",
            count=len(bridges),
        )
