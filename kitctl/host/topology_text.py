"""How does a topology look on a terminal: the matrix, the islands, the proposed sets?"""

from __future__ import annotations

from collections.abc import Sequence

from kitctl.host.facts import Topology
from kitctl.host.topology import GpuSet, Island, link_between

_UNKNOWN = "?"


def topology_lines(topology: Topology, *, chosen: Sequence[int]) -> list[str]:
    """The matrix in index order; GPUs of ``chosen`` carry a ``*``."""
    gpus = sorted(topology.gpu_indices)
    names = [f"GPU{gpu}{'*' if gpu in chosen else ''}" for gpu in gpus]
    rows = [[_cell(topology, a, b) for b in gpus] for a in gpus]
    width = max(4, *(len(word) for word in (*names, *(cell for row in rows for cell in row))))
    tails = [_tail(topology, gpu) for gpu in gpus]
    head = " ".join(name.rjust(width) for name in names)
    lines = [f"{'':{width}} {head}{'  NUMA  near CPUs' if any(tails) else ''}"]
    for name, row, tail in zip(names, rows, tails, strict=True):
        lines.append(f"{name:{width}} {' '.join(cell.rjust(width) for cell in row)}{tail}".rstrip())
    return lines


def _cell(topology: Topology, a: int, b: int) -> str:
    return "." if a == b else link_between(topology, a, b) or _UNKNOWN


def _tail(topology: Topology, gpu: int) -> str:
    at = topology.gpu_indices.index(gpu)
    node = topology.numa_nodes[at] if topology.numa_nodes else None
    cpus = topology.cpu_affinity[at] if topology.cpu_affinity else None
    if node is None and cpus is None:
        return ""
    return f"  {'?' if node is None else node:>4}  {cpus or '?'}"


def island_lines(found: Sequence[Island]) -> list[str]:
    """One line an island."""
    return [f"{island.kind:7} {_listed(island.gpus)}" for island in found]


def set_lines(found: Sequence[GpuSet]) -> list[str]:
    """One line a proposed set, as ``--gpus`` takes it."""
    return [f"--gpus {_listed(one.gpus):16} {one.reason}" for one in found]


def _listed(gpus: Sequence[int]) -> str:
    """``0-3,6``: runs of at least three are joined."""
    parts: list[str] = []
    left = list(gpus)
    while left:
        run = [left.pop(0)]
        while left and left[0] == run[-1] + 1:
            run.append(left.pop(0))
        parts += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(gpu) for gpu in run]
    return ",".join(parts)
