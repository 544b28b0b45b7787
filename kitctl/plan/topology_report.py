"""What does ``kitctl topo`` say of a topology?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kitctl.host.facts import Topology
from kitctl.host.topology import GpuSet, Island, islands, propose_gpu_sets
from kitctl.host.topology_text import island_lines, set_lines, topology_lines
from kitctl.kit.overlay import Overlay
from kitctl.plan.overlay_choice import OverlayChoice, choose_overlay

SCHEMA = "kitctl.topo/1"


def topology_report(
    topology: Topology, gpus: Sequence[int], overlays: Sequence[Overlay]
) -> tuple[dict[str, Any], list[str]]:
    """The report as JSON data and as lines, about ``gpus``."""
    choice = choose_overlay(topology, gpus, overlays)
    found, sets = islands(topology), propose_gpu_sets(topology)
    data = {
        "schema": SCHEMA,
        "links": choice.links,
        "overlay": choice.name,
        "reason": choice.reason,
        "islands": [_island(island) for island in found],
        "gpu_count": len(topology.gpu_indices),
        "numa_nodes": topology.numa_node_count,
        "gpus": list(gpus),
        "nccl": dict(choice.environment),
        "gpu_sets": [_set(one) for one in sets],
        "nics": topology.nic_count,
        "matrix": _matrix(topology),
    }
    return data, _lines(topology, gpus, choice, found=found, sets=sets)


def unknown_report(reason: str) -> tuple[dict[str, Any], list[str]]:
    """The report where no topology could be read: everything unknown, with the reason."""
    nothing = ("links", "overlay", "gpu_count", "numa_nodes")
    data: dict[str, Any] = {"schema": SCHEMA, **dict.fromkeys(nothing), "reason": reason, "islands": []}
    return data, [f"links    unknown: {reason}"]


def _island(island: Island) -> dict[str, Any]:
    return {"kind": island.kind, "gpus": list(island.gpus)}


def _set(one: GpuSet) -> dict[str, Any]:
    return {"gpus": list(one.gpus), "farthest": one.farthest, "reason": one.reason}


def _matrix(topology: Topology) -> Mapping[str, Any]:
    return {"gpus": list(topology.gpu_indices), "links": [list(row) for row in topology.links]}


def _lines(
    topology: Topology,
    gpus: Sequence[int],
    choice: OverlayChoice,
    *,
    found: Sequence[Island],
    sets: Sequence[GpuSet],
) -> list[str]:
    lines = [*topology_lines(topology, chosen=gpus), ""]
    lines.append(f"links    {choice.links or 'unknown'}: {choice.reason}")
    lines.append(f"overlay  {choice.name or 'none chosen'}")
    lines += [
        f"nccl     {name}={value}: {choice.environment_reasons[name]}"
        for name, value in choice.environment.items()
    ]
    lines.append(
        f"numa     {topology.numa_node_count if topology.numa_node_count is not None else 'unknown'}"
    )
    lines += [f"island   {line}" for line in island_lines(found)]
    lines += [f"set      {line}" for line in set_lines(sets)]
    return lines
