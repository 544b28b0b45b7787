"""What does a stack ask of its host?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kitctl.host.facts import Gpu, HostFacts
from kitctl.kit.overlay import Overlay
from kitctl.kit.stack import Parallel
from kitctl.plan.types import GpuDriver, Plan


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


def need_of_plan(
    plan: Plan,
    *,
    overlays: Sequence[Overlay],
    image_cuda: str | None = None,
    image_archs: Sequence[str] | None = None,
    own_project: str | None = None,
    disk_bytes: Mapping[str, int] | None = None,
    ram_bytes: int | None = None,
    graph_file: str | None = None,
) -> HostNeed:
    """What ``plan`` asks of its host. ``overlays``: those of the plan, in order, the host kind's first.

    ``image_cuda`` and ``image_archs``: what the image was built with and for, by its labels or its pin set.
    ``own_project`` is given where the stack may be up already and what it holds is its own. ``graph_file``: the
    text of the file that NCCL_GRAPH_FILE names, where it could be read.
    """
    on_gpus = plan.gpus.driver is not GpuDriver.NONE
    ulimits = {name: value for overlay in overlays for name, value in overlay.ulimits.items()}
    return HostNeed(
        gpu_indices=plan.gpus.indices if on_gpus else (),
        archs=plan.stack.archs if on_gpus else (),
        image_cuda=image_cuda if on_gpus else None,
        image_archs=tuple(image_archs) if image_archs and on_gpus else None,
        gpu_driver=str(plan.gpus.driver),
        reservation_ids=plan.gpus.ids,
        overlay=overlays[0].name if overlays else None,
        overlay_links=overlays[0].block.links if overlays and on_gpus else (),
        port=plan.published.port,
        bind=plan.published.bind,
        environment=plan.environment,
        ulimits=ulimits,
        shm_size_bytes=plan.stack.serve.shm_size_bytes,
        group_sizes=group_sizes(plan.stack.parallel),
        graph_file_gpus=graph_file_gpus(graph_file) if graph_file is not None else None,
        disk_bytes=disk_bytes or {},
        ram_bytes=ram_bytes,
        own_project=own_project,
    )


def group_sizes(parallel: Parallel) -> tuple[int, ...]:
    """GPUs in each NCCL group of a layout: tensor, expert, experts' tensor and pipeline groups.

    SGLang 0.5.16, distributed/parallel_state.py: tp is a replica's world size, ep splits it, and experts are
    tensor-parallel over tp / ep.
    """
    inner = parallel.tp // parallel.ep if parallel.ep and parallel.tp % parallel.ep == 0 else parallel.tp
    return tuple(sorted({parallel.tp, parallel.ep, inner, parallel.pp} - {1}))


def graph_file_gpus(text: str) -> int | None:
    """For how many GPUs a NCCL graph file (XML) was made: those of its largest channel; ``None`` when unreadable."""
    channels = re.findall(r"<channel\b.*?</channel>", text, re.DOTALL)
    counts = [len(set(re.findall(r'<gpu\s+dev="([^"]+)"', channel))) for channel in channels]
    return max(counts, default=0) or None
