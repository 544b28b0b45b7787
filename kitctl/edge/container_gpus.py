"""Ask a running container's own nvidia-smi about its GPUs."""

from __future__ import annotations

from kitctl.edge.process import run_process
from kitctl.watch.gpu_reach import QUERY, GpuReach, read_reach

_TIMEOUT_S = 30.0
"""Without persistence mode the driver starts each GPU anew, a few seconds each."""


def ask_gpus(container_id: str, *, planned: int) -> GpuReach | None:
    """What the container sees of its ``planned`` GPUs; ``None`` when it has none or could not be asked."""
    if not planned:
        return None
    done = run_process(("docker", "exec", container_id, *QUERY), timeout_s=_TIMEOUT_S)
    return read_reach(done.exit_code, done.stdout + done.stderr, planned=planned)
