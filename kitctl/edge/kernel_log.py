"""Ask the kernel whether it killed a process of a container for memory.

The engine's own OOMKilled flag may stay false (measured: Docker Engine 28.5.2, containerd, cgroup v1); the kernel's
line names the container's control group.
"""

from __future__ import annotations

from kitctl.edge.docker_client import engine_address
from kitctl.edge.process import run_process

_TIMEOUT_S = 3.0


def killed_for_memory(container_id: str) -> bool | None:
    """Whether the kernel log names the container in an OOM kill.

    ``None`` when that cannot be known: the engine runs elsewhere, or this user may not read the kernel log.
    """
    if not engine_address().startswith("unix://"):
        return None
    read = run_process(("dmesg",), timeout_s=_TIMEOUT_S)
    if not read.ok:
        return None
    return any("oom-kill:" in line and container_id in line for line in read.stdout.splitlines())
