"""What do the links of these GPUs amount to: which class, which islands, which GPUs go best together?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from kitctl.host.facts import Link, Topology


class LinkClass(StrEnum):
    """How a set of GPUs is linked: all pairs by NVLink, some of them, none of them, or no pair at all."""

    NVLINK_FULL = "nvlink-full"
    NVLINK_PARTIAL = "nvlink-partial"
    PCIE = "pcie"
    SINGLE = "single"


class IslandKind(StrEnum):
    """What the GPUs of an island share."""

    NVLINK = "nvlink"
    SWITCH = "switch"
    NUMA = "numa"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The class of a set of GPUs and the links that decide it; ``links`` is ``None`` when one is unknown."""

    links: LinkClass | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class Island:
    """GPUs of which each reaches each other without leaving what they share. At least two."""

    kind: IslandKind
    gpus: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class GpuSet:
    """GPUs proposed for a stack, and the farthest link among them (``None`` for one GPU)."""

    gpus: tuple[int, ...]
    farthest: Link | None
    reason: str


_ORDER = [Link.NV, Link.PIX, Link.PXB, Link.PHB, Link.NODE, Link.SYS]
_FEW = 20_000
"""Subsets looked at one by one: C(16, 8) = 12870 fits."""


def kind_of(name: str | None) -> Link | None:
    """The kind of a link by nvidia-smi's name: ``NV18`` is ``NV``; ``None`` for an unknown link."""
    if name is None:
        return None
    return Link.NV if name.startswith("NV") else Link(name)


def link_between(topology: Topology, a: int, b: int) -> str | None:
    """The link of two GPUs by their indices; ``None`` when unknown or when the table lacks a GPU."""
    if a not in topology.gpu_indices or b not in topology.gpu_indices:
        return None
    return topology.links[topology.gpu_indices.index(a)][topology.gpu_indices.index(b)]


def classify(topology: Topology, gpu_indices: Iterable[int]) -> Verdict:
    """The class of the GPUs that a stack reserves, not of the whole host; one unknown link leaves it open."""
    gpus = tuple(sorted(set(gpu_indices)))
    absent = [gpu for gpu in gpus if gpu not in topology.gpu_indices]
    if absent or not gpus:
        return Verdict(links=None, reason=f"the topology has no {_named(absent)}" if absent else "no GPU")
    if len(gpus) == 1:
        return Verdict(links=LinkClass.SINGLE, reason=f"GPU{gpus[0]} alone: there is no link to choose for")
    pairs = {pair: link_between(topology, *pair) for pair in combinations(gpus, 2)}
    lost = next((pair for pair, name in pairs.items() if name is None), None)
    if lost is not None:
        return Verdict(links=None, reason=f"the link between GPU{lost[0]} and GPU{lost[1]} is unreadable")
    return _class_of(pairs)


def _class_of(pairs: dict[tuple[int, int], str | None]) -> Verdict:
    others = {pair: name for pair, name in pairs.items() if kind_of(name) is not Link.NV}
    names = " ".join(sorted({str(name) for name in pairs.values()}))
    is_one = len(pairs) == 1
    if not others:
        told = "the pair has" if is_one else f"all {len(pairs)} pairs have"
        return Verdict(links=LinkClass.NVLINK_FULL, reason=f"{told} NVLink ({names})")
    if len(others) == len(pairs):
        told = "the pair has no" if is_one else f"no pair of {len(pairs)} has"
        return Verdict(links=LinkClass.PCIE, reason=f"{told} NVLink ({names})")
    (a, b), name = next(iter(others.items()))
    count = f"{len(pairs) - len(others)} of {len(pairs)} pairs have NVLink"
    return Verdict(links=LinkClass.NVLINK_PARTIAL, reason=f"{count}; GPU{a} and GPU{b} are {name}")


def spans_numa_nodes(topology: Topology, gpu_indices: Iterable[int]) -> bool | None:
    """Whether the GPUs are on more than one NUMA node; by the NUMA column, else by the links."""
    gpus = sorted(set(gpu_indices))
    if any(gpu not in topology.gpu_indices for gpu in gpus):
        return None
    at = [topology.gpu_indices.index(gpu) for gpu in gpus]
    nodes = {topology.numa_nodes[n] for n in at} if topology.numa_nodes else {None}
    if None not in nodes:
        return len(nodes) > 1
    kinds = {kind_of(link_between(topology, a, b)) for a, b in combinations(gpus, 2)}
    if Link.SYS in kinds:
        return True
    return None if None in kinds or Link.NV in kinds else False


def islands(topology: Topology) -> tuple[Island, ...]:
    """Groups of at least two GPUs by NVLink, by PCIe switch and by NUMA node, nearest kind first.

    NVLink groups are those of which every pair has NVLink; a hybrid mesh (DGX-1) gives its full sub-meshes.
    """
    found = [
        *(Island(kind=IslandKind.NVLINK, gpus=gpus) for gpus in _nvlink_groups(topology)),
        *(Island(kind=IslandKind.SWITCH, gpus=gpus) for gpus in _joined(topology, {Link.PIX, Link.PXB})),
        *(Island(kind=IslandKind.NUMA, gpus=gpus) for gpus in _numa_groups(topology)),
    ]
    return tuple(island for island in found if len(island.gpus) > 1)


def _nvlink_groups(topology: Topology) -> list[tuple[int, ...]]:
    """Greedy in index order: each GPU joins the first group of which it reaches every member by NVLink."""
    groups: list[list[int]] = []
    for gpu in sorted(topology.gpu_indices):
        home = next((g for g in groups if all(_is_nvlink(topology, gpu, other) for other in g)), None)
        if home is None:
            groups.append([gpu])
        else:
            home.append(gpu)
    return [tuple(group) for group in groups]


def _is_nvlink(topology: Topology, a: int, b: int) -> bool:
    return kind_of(link_between(topology, a, b)) is Link.NV


def _joined(topology: Topology, kinds: set[Link]) -> list[tuple[int, ...]]:
    """GPUs connected, directly or over others, by links of ``kinds``."""
    group = {gpu: gpu for gpu in sorted(topology.gpu_indices)}
    for a, b in combinations(sorted(topology.gpu_indices), 2):
        if kind_of(link_between(topology, a, b)) in kinds:
            group = {gpu: group[a] if home == group[b] else home for gpu, home in group.items()}
    return [tuple(g for g in group if group[g] == home) for home in dict.fromkeys(group.values())]


def _numa_groups(topology: Topology) -> list[tuple[int, ...]]:
    nodes = dict(zip(topology.gpu_indices, topology.numa_nodes, strict=False))
    if nodes and None not in nodes.values():
        homes = sorted({node for node in nodes.values() if node is not None})
        return [tuple(sorted(gpu for gpu, node in nodes.items() if node == home)) for home in homes]
    return _joined(topology, {Link.PIX, Link.PXB, Link.PHB, Link.NODE})


def propose_gpu_sets(topology: Topology, sizes: Iterable[int] = (1, 2, 4, 8)) -> tuple[GpuSet, ...]:
    """The best set of each size that the host can hold."""
    found = (best_gpu_set(topology, size, among=topology.gpu_indices) for size in sizes)
    return tuple(best for best in found if best is not None)


def best_gpu_set(topology: Topology, size: int, *, among: Iterable[int]) -> GpuSet | None:
    """The ``size`` GPUs out of ``among`` whose farthest link is nearest, then with the nearest links in all.

    Ties go to the lowest indices. ``None`` when there are too few. A set holding an unknown link loses to
    every other.
    """
    gpus = sorted(set(among) & set(topology.gpu_indices))
    if size < 1 or len(gpus) < size:
        return None
    best = min(_candidates(gpus, size), key=lambda chosen: (_distance(topology, chosen), chosen))
    return _described(topology, best)


def _candidates(gpus: list[int], size: int) -> Iterable[tuple[int, ...]]:
    total = 1
    for step in range(size):
        total = total * (len(gpus) - step) // (step + 1)
    if total <= _FEW:
        return combinations(gpus, size)
    return (tuple(gpus[at : at + size]) for at in range(len(gpus) - size + 1))


def _distance(topology: Topology, gpus: tuple[int, ...]) -> tuple[int, int]:
    steps = [_steps(kind_of(link_between(topology, a, b))) for a, b in combinations(gpus, 2)]
    return max(steps, default=0), sum(steps)


def _steps(kind: Link | None) -> int:
    return _ORDER.index(kind) if kind is not None else len(_ORDER)


def _described(topology: Topology, gpus: tuple[int, ...]) -> GpuSet:
    if len(gpus) == 1:
        return GpuSet(gpus=gpus, farthest=None, reason="one GPU")
    links = [kind_of(link_between(topology, a, b)) for a, b in combinations(gpus, 2)]
    if None in links:
        return GpuSet(gpus=gpus, farthest=None, reason="a link among them is unreadable")
    farthest = max((link for link in links if link is not None), key=_ORDER.index)
    return GpuSet(gpus=gpus, farthest=farthest, reason=f"{_WORDS[farthest]} at the farthest")


_WORDS = {
    Link.NV: "NVLink",
    Link.PIX: "one PCIe switch (PIX)",
    Link.PXB: "PCIe switches (PXB)",
    Link.PHB: "one host bridge (PHB)",
    Link.NODE: "one NUMA node (NODE)",
    Link.SYS: "across sockets (SYS)",
}


def _named(gpus: Iterable[int]) -> str:
    return " ".join(f"GPU{gpu}" for gpu in gpus)
