"""What does a stack that was taken down still hold? Pure: host facts of before and now in, what is left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kitctl.host.facts import Gpu, HostFacts

GPU_LEFT_MIB = 512
"""A driver that starts a GPU anew takes as much without any process."""


@dataclass(frozen=True, kw_only=True)
class Left:
    """What is not as free as before the start: a port, or the memory of ``gpu``.

    ``is_others``: others hold all of it, so no waiting frees it.
    """

    line: str
    gpu: int | None = None
    is_others: bool = False


def left_over(
    before: Mapping[str, Any], now: HostFacts, *, gpus: tuple[int, ...], port: int
) -> tuple[Left, ...]:
    """What is left of the stack's port and of each of its ``gpus``.

    ``before`` are the facts that the run's record holds. What cannot be read is not told.
    """
    then = {gpu["index"]: gpu for gpu in before.get("gpus") or ()}
    memory = [_gpu_left(gpu, then.get(gpu.index, {})) for gpu in now.gpus or () if gpu.index in gpus]
    return tuple(left for left in (_port_left(now, port), *memory) if left)


def tells_memory(now: HostFacts, gpus: tuple[int, ...]) -> bool:
    """Whether each of ``gpus`` is there and tells how much of its memory is used."""
    told = {gpu.index for gpu in now.gpus or () if gpu.memory_used_mib is not None}
    return told.issuperset(gpus)


def _port_left(now: HostFacts, port: int) -> Left | None:
    taken = next((one for one in now.listeners or () if one.port == port), None)
    if taken is None:
        return None
    pid = f" (pid {taken.pid})" if taken.pid is not None else ""
    return Left(line=f"port {port} is taken by {taken.holder or 'a process that only root may see'}{pid}")


def _gpu_left(gpu: Gpu, then: Mapping[str, Any]) -> Left | None:
    more_mib = (gpu.memory_used_mib or 0) - (then.get("memory_used_mib") or 0)
    if more_mib <= GPU_LEFT_MIB:
        return None
    holders = ", ".join(
        f"{process.container or process.name or 'a process'} (pid {process.pid})"
        for process in gpu.processes or ()
    )
    return Left(
        line=f"GPU {gpu.index} holds {more_mib} MiB more than before the start: {holders or 'no process is named'}",
        gpu=gpu.index,
        is_others=(gpu.memory_used_mib or 0) - _others_mib(gpu, then) <= GPU_LEFT_MIB,
    )


def _others_mib(gpu: Gpu, then: Mapping[str, Any]) -> int:
    """What processes hold that are surely not the stack's: in a container that runs still, or there before it."""
    known = {process["pid"] for process in then.get("processes") or ()}
    return sum(
        process.used_mib or 0
        for process in gpu.processes or ()
        if process.container is not None or process.pid in known
    )
