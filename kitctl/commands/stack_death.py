"""A stack that died while it was measured: its death is told, not that nothing answers any more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kitctl.commands.diagnose import diagnose_project
from kitctl.commands.projects import running_container
from kitctl.commands.server_choice import Server
from kitctl.errors import Exit, KitError
from kitctl.watch.diagnose import Diagnosis


@contextmanager
def telling_death(server: Server) -> Iterator[None]:
    """Raise the death of the server's stack (exit 7) in place of the block's error that nothing answers (exit 10)."""
    try:
        yield
    except KitError as failed:
        death = _death_of(server) if failed.exit_code is Exit.UNREACHABLE else None
        if death is None:
            raise
        raise death from failed


def require_alive(server: Server, *, failed: bool) -> None:
    """Raise the death of the server's stack (exit 7) when a request of it failed for that."""
    death = _death_of(server) if failed else None
    if death is not None:
        raise death


def _death_of(server: Server) -> KitError | None:
    """What ended the stack that is measured; ``None`` while it runs, and for a server that kitctl did not start."""
    if server.record is None:
        return None
    project = str(server.record["project"])
    try:
        container = running_container(project)
        if container is not None and container.is_running:
            return None
        found = diagnose_project(project)
    except KitError:
        return None
    return _death(server.label, found[0]) if found else _gone(server.label)


def _death(stack: str, found: Diagnosis) -> KitError:
    return KitError(
        found.code,
        f"{stack} died while it was measured: {found.cause}",
        evidence=found.evidence,
        remedy=found.remedy,
        exit_code=Exit.CRASHED,
    )


def _gone(stack: str) -> KitError:
    return KitError(
        "stack-gone",
        f"{stack} was taken down while it was measured",
        remedy=f"kitctl up {stack}, then the same command again (bench: with --resume)",
        exit_code=Exit.CRASHED,
    )
