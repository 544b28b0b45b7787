"""End the engine that ``kitctl setup`` itself started, and no other."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from kitctl.edge.files import read_text_if_there
from kitctl.edge.process import run_process
from kitctl.edge.setup_survey import running_daemon
from kitctl.errors import Exit, KitError
from kitctl.host.setup_recipe import Recipe

_COMMAND_TIMEOUT_S = 120.0
_POLL_S = 0.1


@dataclass(frozen=True, kw_only=True)
class OwnEngine:
    """The engine that setup started: its process, or its systemd unit, and the containers that run in it."""

    pid: int
    unit: str | None
    containers: tuple[str, ...]


def find_own_engine(recipe: Recipe) -> OwnEngine | None:
    """The running engine whose pidfile is setup's; ``None`` when no such engine runs."""
    pid = running_daemon(recipe.place.pidfile)
    if pid is None:
        return None
    listed = run_process(("docker", "ps", "--format", "{{.Names}}"), timeout_s=_COMMAND_TIMEOUT_S)
    unit = recipe.place.unit_name if Path(recipe.place.unit).exists() else None
    return OwnEngine(pid=pid, unit=unit, containers=tuple(listed.stdout.split()))


def stop_engine(engine: OwnEngine, recipe: Recipe) -> tuple[str, ...]:
    """End the engine, wait for it, and unmount what it left; returns the mount points that were left.

    Raises KitError ``engine-did-not-stop`` (exit 10) when it is still there after the recipe's time.
    """
    if engine.unit:
        run_process(("systemctl", "stop", engine.unit), timeout_s=_COMMAND_TIMEOUT_S)
    else:
        os.kill(engine.pid, signal.SIGTERM)
    deadline = time.monotonic() + recipe.daemon.stop_timeout_s
    while running_daemon(recipe.place.pidfile) == engine.pid:
        if time.monotonic() > deadline:
            raise KitError(
                "engine-did-not-stop",
                f"the engine (process {engine.pid}) was told to end and still runs",
                evidence=(f"log: {recipe.place.log}",),
                remedy=f"kill -9 {engine.pid}",
                exit_code=Exit.UNREACHABLE,
            )
        time.sleep(_POLL_S)
    Path(recipe.place.pidfile).unlink(missing_ok=True)
    left = _mounts_below(recipe.place.exec_root)
    for point in left:
        run_process(("umount", "--lazy", point), timeout_s=_COMMAND_TIMEOUT_S)
    return left


def _mounts_below(folder: str) -> tuple[str, ...]:
    """Mount points under the folder, deepest first: a stopped engine leaves network namespaces mounted."""
    lines = (read_text_if_there("/proc/self/mountinfo") or "").splitlines()
    points = {line.split()[4] for line in lines}
    return tuple(sorted((point for point in points if point.startswith(f"{folder}/")), reverse=True))
