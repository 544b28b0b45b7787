"""The docker command line's part of the work: compose, through python-on-whales."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kitctl.errors import Exit, KitError


@contextmanager
def _client(folder: str, project: str) -> Iterator[Any]:
    """Compose on the files of ``folder`` alone, whatever COMPOSE_* variables the user's shell holds."""
    from python_on_whales import DockerClient
    from python_on_whales.client_config import ClientNotFoundError

    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("COMPOSE_")}
    try:
        yield DockerClient(
            compose_files=_compose_files(folder),
            compose_project_name=project,
            compose_project_directory=folder,
        )
    except ClientNotFoundError as missing:
        raise KitError(
            "docker-missing",
            "there is no docker command on the PATH, and compose needs it",
            evidence=(str(missing),),
            remedy="kitctl setup, or put docker's folder on the PATH",
            exit_code=Exit.UNREACHABLE,
        ) from missing
    finally:
        os.environ.update(kept)


def _compose_files(folder: str) -> list[str | Path]:
    """The files that ``.env`` names, in its order."""
    for line in (Path(folder) / ".env").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        if name == "COMPOSE_FILE":
            return [str(Path(folder) / part) for part in value.split(":")]
    return []


def compose_config(folder: str, project: str) -> dict[str, Any]:
    """The merged project as compose itself sees it (no engine needed).

    Raises KitError ``compose-refused`` (exit 2) with compose's own words.
    """
    from python_on_whales.exceptions import DockerException

    try:
        with _client(folder, project) as client:
            merged = client.compose.config(return_json=True)
    except DockerException as refused:
        raise _refused(
            "compose-refused", "compose refuses the rendered project", refused, Exit.USAGE
        ) from refused
    return dict(merged)


def compose_up(folder: str, project: str) -> None:
    """Create and start the project's containers, detached. Raises KitError ``start-failed`` (exit 6)."""
    from python_on_whales.exceptions import DockerException

    try:
        with _client(folder, project) as client:
            client.compose.up(detach=True, quiet=True)
    except DockerException as refused:
        raise _refused("start-failed", "the container could not be started", refused, Exit.START) from refused


def _refused(code: str, cause: str, refused: Any, exit_code: Exit) -> KitError:
    said = [line.strip() for line in (refused.stderr or str(refused)).splitlines() if line.strip()]
    return KitError(
        code,
        cause,
        evidence=tuple(said[-4:]),
        remedy="kitctl doctor",
        exit_code=exit_code,
    )
