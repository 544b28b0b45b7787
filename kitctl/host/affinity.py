"""Which CPUs and NUMA node is a GPU near? Reads the columns right of the links in ``nvidia-smi topo -m``.

The CPU list is cut by nvidia-smi after six entries, so that it names no CPU set to pin to: sysfs does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_LIST = re.compile(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*,?")


@dataclass(frozen=True, kw_only=True)
class Affinity:
    """One row's columns as printed; ``None`` where blank or unreadable."""

    cpus: str | None = None
    numa: str | None = None

    @property
    def numa_node(self) -> int | None:
        """The one NUMA node of the GPU; ``None`` when unknown or a range such as ``0-1``."""
        return int(self.numa) if self.numa is not None and self.numa.isdigit() else None

    @property
    def numa_set(self) -> frozenset[int]:
        """All NUMA nodes that the column names."""
        return frozenset(_expand(self.numa)) if self.numa else frozenset()


def read_affinity(tail: str, header: str) -> Affinity:
    """The affinity in ``tail``, a row's text after its links, for the columns that ``header`` names."""
    has_cpu, has_numa, has_id = "CPU Aff" in header, "NUMA Aff" in header, "GPU NUMA" in header
    if not has_cpu:
        return Affinity()
    values = tail.split()
    if has_id and values and (values[-1] == "N/A" or len(values) == 3):
        values = values[:-1]
    if has_numa and "\t" in tail and tail.partition("\t")[0].strip() == "":
        values = [field.strip() for field in tail.split("\t")[1:3]]
    if not has_numa:
        return Affinity(cpus=_list(values[0]) if len(values) == 1 else None)
    return Affinity(cpus=_list(values[0]), numa=_list(values[1])) if len(values) == 2 else Affinity()


def _list(value: str) -> str | None:
    return value if _LIST.fullmatch(value) else None


def _expand(ranges: str) -> list[int]:
    found: list[int] = []
    for part in ranges.strip(",").split(","):
        first, _, last = part.partition("-")
        found.extend(range(int(first), min(int(last or first), int(first) + 1023) + 1))
    return found


def numa_node_count(
    affinities: Sequence[Affinity], links: Sequence[Sequence[str | None]], *, has_columns: bool
) -> int | None:
    """How many NUMA nodes the GPUs are on: by the NUMA column, else the CPU lists, else the links.

    A blank column leaves it unknown: the driver itself did not know (a container or pod). Without columns,
    ``SYS`` is by nvidia-smi's legend the only link that crosses NUMA nodes; NVLink hides what lies below it.
    """
    if all(affinity.numa for affinity in affinities):
        return _count_sets({affinity.numa_set for affinity in affinities})
    if has_columns:
        by_cpus = {affinity.cpus for affinity in affinities}
        has_numa = any(affinity.numa for affinity in affinities)
        return None if None in by_cpus or has_numa else len(by_cpus)
    return _count_by_links(links)


def _count_sets(sets: set[frozenset[int]]) -> int:
    """Nodes that the sets name. Several sets without a common node stand for one CPU node each, together with
    the memory nodes of GPUs (GB200: ``0,2-17`` and ``1,18-33``)."""
    every = frozenset[int]().union(*sets)
    are_apart = sum(len(one) for one in sets) == len(every)
    return len(sets) if len(sets) > 1 and are_apart else len(every)


def _count_by_links(links: Sequence[Sequence[str | None]]) -> int | None:
    names = {name for row in links for name in row}
    if None in names or any(name is not None and name.startswith("NV") for name in names):
        return None
    nodes = list(range(len(links)))
    for a, row in enumerate(links):
        for b, name in enumerate(row):
            if name != "SYS":
                nodes = [nodes[a] if node == nodes[b] else node for node in nodes]
    return len(set(nodes))
