"""What the compose plugin of the docker command does: read a rendered project and bring it up.

A process of its own costs less than any library that wraps it: compose is asked twice a start.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kitctl.edge.process import Finished, run_process
from kitctl.errors import Exit, KitError

_CONFIG_TIMEOUT_S = 60
_UP_TIMEOUT_S = 900
_LAST_LINES = 4


def compose_config(folder: str, project: str) -> dict[str, Any]:
    """The merged project as compose itself sees it (no engine needed).

    Raises KitError ``compose-refused`` (exit 2) with compose's own words, ``docker-missing`` (exit 10).
    """
    done = _compose(folder, project, "config", "--format", "json", timeout_s=_CONFIG_TIMEOUT_S)
    if not done.ok:
        raise _refused("compose-refused", "compose refuses the rendered project", done, Exit.USAGE)
    merged: dict[str, Any] = json.loads(done.stdout)
    return merged


def compose_up(folder: str, project: str) -> None:
    """Create and start the project's containers, detached. Raises KitError ``start-failed`` (exit 6)."""
    done = _compose(folder, project, "up", "--detach", timeout_s=_UP_TIMEOUT_S)
    if not done.ok:
        raise _refused("start-failed", "the container could not be started", done, Exit.START)


def _compose(folder: str, project: str, *words: str, timeout_s: float) -> Finished:
    """Compose on the files of ``folder`` alone, whatever COMPOSE_* variables the user's shell holds."""
    files = [word for path in _compose_files(folder) for word in ("--file", path)]
    argv = ("docker", "compose", *files, "--project-name", project, "--project-directory", folder)
    done = run_process((*argv, "--progress", "plain", *words), timeout_s=timeout_s, without="COMPOSE_")
    if done.exit_code is None and "No such file" in (done.failure or ""):
        raise KitError(
            "docker-missing",
            "there is no docker command on the PATH, and compose needs it",
            evidence=(str(done.failure),),
            remedy="kitctl setup, or put docker's folder on the PATH",
            exit_code=Exit.UNREACHABLE,
        )
    return done


def _compose_files(folder: str) -> list[str]:
    """The files that ``.env`` names, in its order."""
    for line in (Path(folder) / ".env").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        if name == "COMPOSE_FILE":
            return [str(Path(folder) / part) for part in value.split(":")]
    return []


def _refused(code: str, cause: str, done: Finished, exit_code: Exit) -> KitError:
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return KitError(
        code,
        cause,
        evidence=tuple(said[-_LAST_LINES:]) or (done.failure or f"exit code {done.exit_code}",),
        remedy="kitctl doctor",
        exit_code=exit_code,
    )
