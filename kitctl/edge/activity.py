"""Look at a running container from outside: bytes read, memory taken, programs that run."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from kitctl.edge.clock import monotonic_s
from kitctl.edge.container_gpus import ask_gpus
from kitctl.edge.docker_client import engine_calls
from kitctl.watch.progress import Sample


def look_at(container_id: str, *, gpus: int = 0) -> Sample | None:
    """One sample, without log lines, with a look at its ``gpus``; ``None`` when the container does not run.

    Bytes are those that the container's control group read from block devices; memory counts its page cache too.
    """
    import docker.errors

    try:
        with engine_calls() as client:
            stats = client.api.stats(container_id, stream=False, one_shot=True)
            programs = client.api.top(container_id, ps_args="-eo pid,args")
    except (docker.errors.NotFound, docker.errors.APIError):
        return None
    reach = ask_gpus(container_id, planned=gpus)
    return Sample(
        at_s=monotonic_s(),
        messages=0,
        read_bytes=_read_bytes(stats),
        memory_mib=_memory_mib(stats),
        programs=tuple(_program(row) for row in programs.get("Processes") or ()),
        gpu_memory_mib=reach.used_mib if reach else None,
        gpu_failure=reach.failure if reach else None,
    )


def _read_bytes(stats: dict[str, Any]) -> int | None:
    rows = (stats.get("blkio_stats") or {}).get("io_service_bytes_recursive")
    if rows is None:
        return None
    return sum(int(row["value"]) for row in rows if str(row.get("op", "")).lower() == "read")


def _memory_mib(stats: dict[str, Any]) -> int | None:
    usage = (stats.get("memory_stats") or {}).get("usage")
    return None if usage is None else int(usage) // 1024**2


def _program(row: list[str]) -> str:
    words = row[1].split() if len(row) > 1 else []
    return PurePosixPath(words[0]).name if words else ""
