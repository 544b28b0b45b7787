"""What does a stack ask of its host?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kitctl.host.facts import Gpu, HostFacts


@dataclass(frozen=True, kw_only=True)
class HostNeed:
    """What a rendered stack asks for. ``None`` or empty: it does not ask, or it is not known.

    ``gpu_indices``: the reserved GPUs (``None``: all of the host's). ``group_sizes``: GPUs in each of its NCCL
    groups. ``disk_bytes``: bytes to be written, by path. ``own_project``: the compose project whose containers
    are the stack itself, so that what they hold is no clash.
    """

    gpu_indices: tuple[int, ...] | None = None
    archs: tuple[str, ...] = ()
    image_cuda: str | None = None
    image_nvcc: str | None = None
    image_archs: tuple[str, ...] | None = None
    gpu_driver: str | None = None
    reservation_ids: tuple[str, ...] = ()
    overlay: str | None = None
    overlay_links: tuple[str, ...] = ()
    port: int | None = None
    bind: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    ulimits: Mapping[str, Any] = field(default_factory=dict)
    shm_size_bytes: int | None = None
    ipc_host: bool = False
    cpuset: str | None = None
    group_sizes: tuple[int, ...] = ()
    graph_file_gpus: int | None = None
    disk_bytes: Mapping[str, int] = field(default_factory=dict)
    ram_bytes: int | None = None
    own_project: str | None = None


def reserved_gpus(facts: HostFacts, need: HostNeed) -> tuple[Gpu, ...]:
    """The GPUs that the need is about."""
    gpus = facts.gpus or ()
    return gpus if need.gpu_indices is None else tuple(g for g in gpus if g.index in need.gpu_indices)
