"""The docker command line's part of the work: compose, through python-on-whales."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from kitctl.errors import Exit, KitError


def _client(folder: str, project: str) -> Any:
    from python_on_whales import DockerClient

    files = _compose_files(folder)
    return DockerClient(compose_files=files, compose_project_name=project, compose_project_directory=folder)


def _compose_files(folder: str) -> list[str | Path]:
    """The files that ``.env`` names, in its order."""
    for line in (Path(folder) / ".env").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        if name == "COMPOSE_FILE":
            return [str(Path(folder) / part) for part in value.split(":")]
    return []


def has_project(folder: str) -> bool:
    """Whether ``folder`` holds a rendered project."""
    return (Path(folder) / ".env").is_file()


def remove_project(project: str) -> None:
    """Remove a project's containers and network by name alone, without its files.

    Raises KitError ``stop-failed`` (exit 6).
    """
    from python_on_whales import DockerClient
    from python_on_whales.exceptions import DockerException

    with tempfile.TemporaryDirectory() as empty:
        client = DockerClient(compose_project_name=project, compose_project_directory=empty)
        try:
            client.compose.down(remove_orphans=True, quiet=True)
        except DockerException as refused:
            raise _refused(
                "stop-failed", "the containers could not be removed", refused, Exit.START
            ) from refused


def compose_config(folder: str, project: str) -> dict[str, Any]:
    """The merged project as compose itself sees it (no engine needed).

    Raises KitError ``compose-refused`` (exit 2) with compose's own words.
    """
    from python_on_whales.exceptions import DockerException

    try:
        merged = _client(folder, project).compose.config(return_json=True)
    except DockerException as refused:
        raise _refused(
            "compose-refused", "compose refuses the rendered project", refused, Exit.USAGE
        ) from refused
    return dict(merged)


def compose_up(folder: str, project: str) -> None:
    """Create and start the project's containers, detached. Raises KitError ``start-failed`` (exit 6)."""
    from python_on_whales.exceptions import DockerException

    try:
        _client(folder, project).compose.up(detach=True, quiet=True)
    except DockerException as refused:
        raise _refused("start-failed", "the container could not be started", refused, Exit.START) from refused


def compose_down(folder: str, project: str, *, stop_timeout_s: int | None = None) -> None:
    """Stop and remove the project's containers and network; volumes (caches) stay.

    Raises KitError ``stop-failed`` (exit 6).
    """
    from python_on_whales.exceptions import DockerException

    try:
        _client(folder, project).compose.down(remove_orphans=True, timeout=stop_timeout_s, quiet=True)
    except DockerException as refused:
        raise _refused("stop-failed", "the containers could not be removed", refused, Exit.START) from refused


def _refused(code: str, cause: str, refused: Any, exit_code: Exit) -> KitError:
    said = [line.strip() for line in (refused.stderr or str(refused)).splitlines() if line.strip()]
    return KitError(
        code,
        cause,
        evidence=tuple(said[-4:]),
        remedy="kitctl doctor",
        exit_code=exit_code,
    )
