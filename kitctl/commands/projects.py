"""Find the containers of a project and take them down: shared by up, down, status and their kin."""

from __future__ import annotations

import argparse

from kitctl.edge.container_log import log_lines
from kitctl.edge.docker_client import require_engine
from kitctl.edge.docker_engine import (
    PROJECT_LABEL,
    ContainerState,
    containers_of,
    remove_project,
    stop_project,
)
from kitctl.edge.runs import keep_log, run_folder
from kitctl.errors import Exit, KitError
from kitctl.kit.near import near_name
from kitctl.plan.names import PROJECT_PREFIX, project_name, project_words
from kitctl.plan.types import Request
from kitctl.render.compose import LABEL

__all__ = ["PROJECT_LABEL"]


def add_project_arguments(parser: argparse.ArgumentParser) -> None:
    """Name one running stack."""
    parser.add_argument("stack", metavar="STACK", help="the stack's name, as 'kitctl ps' prints it")
    parser.add_argument("--name", metavar="NAME", help="the copy that was started under this name")
    parser.add_argument("--rehearse", action="store_true", help="the stack's rehearsal")


def add_nodes_argument(parser: argparse.ArgumentParser) -> None:
    """The hosts of a server that spans several."""
    parser.add_argument(
        "--nodes", metavar="URL,URL", help="one server over these 2 to 4 hosts: ssh://gpu1,ssh://gpu2"
    )


def project_of(args: argparse.Namespace) -> str:
    """The compose project that the words name."""
    return project_name(Request(stack=args.stack, name=args.name, rehearse=args.rehearse))


def running_container(project: str) -> ContainerState | None:
    """The engine's container of the project, running or not, or ``None``; add-on services do not count."""
    found = [c for c in containers_of(PROJECT_LABEL, project) if f"{LABEL}.stack" in c.labels]
    return found[-1] if found else None


def gpu_count(container: ContainerState) -> int:
    """How many GPUs the plan gave to the container."""
    return len([gpu for gpu in container.labels.get(f"{LABEL}.gpus", "").split(",") if gpu])


def take_down(project: str, *, grace_s: int | None = None) -> bool:
    """Remove the project's containers and networks, whatever state they are in; whether there were any.

    The engine's log is kept in the run's folder, caches stay. ``grace_s`` shortens the stack's own time to stop.
    """
    stop_project(project, grace_s=grace_s)
    container = running_container(project)
    run = container.labels.get(f"{LABEL}.run") if container else None
    if container is not None and run:
        keep_log(run_folder(run), log_lines(container.id, follow=False))
    return remove_project(project)


def kit_containers() -> tuple[ContainerState, ...]:
    """All containers that kitctl started on this engine."""
    return containers_of(f"{LABEL}.stack")


def require_container(project: str) -> ContainerState:
    """The project's container. Raises KitError ``not-up`` (exit 3), ``engine-unreachable`` (exit 10)."""
    require_engine()
    found = running_container(project)
    if found is not None:
        return found
    raise KitError(
        "not-up",
        f"no container of {project} exists on this engine",
        evidence=(_what_is_up(project),),
        remedy="kitctl ps shows what is up, kitctl up STACK starts a stack",
        exit_code=Exit.REFUSED,
    )


def _what_is_up(project: str) -> str:
    """The project there that is nearest to ``project``, or all of them, as one types them."""
    there = sorted({c.labels[PROJECT_LABEL].removeprefix(f"{PROJECT_PREFIX}-") for c in kit_containers()})
    near = near_name(project.removeprefix(f"{PROJECT_PREFIX}-"), there)
    if near is not None:
        return f"did you mean {project_words(near)!r}?"
    return f"known: {', '.join(map(project_words, there)) or 'none'}"
