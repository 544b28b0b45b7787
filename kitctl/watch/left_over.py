"""What does a stack that was taken down still hold? Pure: host facts of before and now in, lines out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kitctl.host.facts import Gpu, HostFacts

GPU_LEFT_MIB = 512
"""A driver that starts a GPU anew takes as much without any process."""


def left_over(
    before: Mapping[str, Any], now: HostFacts, *, gpus: tuple[int, ...], port: int
) -> tuple[str, ...]:
    """One line for the stack's port, and for each of its ``gpus``, that is not as free as before the start.

    ``before`` are the facts that the run's record holds. What cannot be read is not told.
    """
    used = {gpu["index"]: gpu.get("memory_used_mib") or 0 for gpu in before.get("gpus") or ()}
    lines = [_gpu_line(gpu, used.get(gpu.index, 0)) for gpu in now.gpus or () if gpu.index in gpus]
    return tuple(line for line in (_port_line(now, port), *lines) if line)


def _port_line(now: HostFacts, port: int) -> str | None:
    taken = next((one for one in now.listeners or () if one.port == port), None)
    if taken is None:
        return None
    pid = f" (pid {taken.pid})" if taken.pid is not None else ""
    return f"port {port} is taken by {taken.holder or 'a process that only root may see'}{pid}"


def _gpu_line(gpu: Gpu, before_mib: int) -> str | None:
    more_mib = (gpu.memory_used_mib or 0) - before_mib
    if more_mib <= GPU_LEFT_MIB:
        return None
    holders = ", ".join(
        f"{process.container or process.name or 'a process'} (pid {process.pid})"
        for process in gpu.processes or ()
    )
    return (
        f"GPU {gpu.index} holds {more_mib} MiB more than before the start: {holders or 'no process is named'}"
    )
