"""Does a running container still reach its GPUs? Pure: what nvidia-smi said inside it in, a reason out.

A container can lose them while it runs: a host's service manager that reloads puts its own device rules back, and what
was open stays open, so that the server answers until it opens a GPU anew.
"""

from __future__ import annotations

from dataclasses import dataclass

QUERY = ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")
_NOT_THERE = (125, 126, 127)
_ENGINE_SAID = (
    "Error response from daemon",
    "OCI runtime exec failed",
    "Cannot connect to the Docker daemon",
)
"""The container is gone or paused, or its image has no nvidia-smi: nothing is known."""


@dataclass(frozen=True, kw_only=True)
class GpuReach:
    """What a look at the GPUs from inside the container showed: memory in use over all of them, or what is wrong."""

    used_mib: int | None = None
    failure: str | None = None


def read_reach(exit_code: int | None, said: str, *, planned: int) -> GpuReach | None:
    """The answer of ``QUERY`` in a container that was given ``planned`` GPUs; ``None`` when it could not be asked."""
    if exit_code is None or exit_code in _NOT_THERE or said.startswith(_ENGINE_SAID):
        return None
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if exit_code != 0:
        return GpuReach(failure=lines[0] if lines else f"nvidia-smi ended with exit code {exit_code}")
    if len(lines) < planned:
        return GpuReach(failure=f"nvidia-smi sees {len(lines)} of {planned} GPUs")
    used = [int(line) for line in lines if line.isdigit()]
    return GpuReach(used_mib=sum(used) if used else None)
