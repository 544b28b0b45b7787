"""``kitctl diagnose``: name the failure in a log or of a stack, show the evidence, give the remedy."""

from __future__ import annotations

import argparse

import msgspec

from kitctl.commands.outside_types import exit_code
from kitctl.commands.projects import add_project_arguments, project_of, running_container
from kitctl.edge.container_log import log_lines
from kitctl.edge.docker_engine import ContainerState
from kitctl.edge.docker_events import container_events
from kitctl.edge.failure_book import failure_book
from kitctl.edge.kernel_log import killed_for_memory
from kitctl.edge.log_files import is_file, read_log_file
from kitctl.edge.runs import latest_record, load_record, read_log, run_folder
from kitctl.errors import Exit, KitError
from kitctl.render.compose import LABEL
from kitctl.result import Context, Result
from kitctl.watch.diagnose import UNKNOWN, Diagnosis, diagnose, diagnosis_lines

UNHEALTHY = "unhealthy"
"""The engine's word for a container whose own health check fails."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``diagnose``."""
    add_project_arguments(parser)
    parser.add_argument("--file", action="store_true", help="STACK is a log file, never a stack")
    parser.add_argument(
        "--exit-code", type=exit_code, metavar="N", help="with a file: the container's exit code"
    )
    parser.add_argument(
        "--oom-killed", action="store_true", help="with a file: the kernel killed it for memory"
    )


def run(args: argparse.Namespace, context: Context) -> Result:
    """Diagnose STACK, FILE or ``-``; nothing wrong gives an empty list and exit 0 all the same."""
    if args.stack == "-" or args.file or is_file(args.stack):
        text = read_log_file(args.stack)
        found = diagnose(text, failure_book(), exit_code=args.exit_code, oom_killed=args.oom_killed or None)
        return _result(args.stack, found)
    return _result(args.stack, diagnose_project(project_of(args)))


def diagnose_project(project: str) -> tuple[Diagnosis, ...]:
    """What is wrong with a project, from its container if there is one, else from its last run's log.

    Raises KitError ``never-started`` (exit 2) when there is neither.
    """
    container = running_container(project)
    record = latest_record(project)
    if container is None and record is None:
        raise KitError(
            "never-started",
            f"there is no log file, no container and no run record for {project.removeprefix('kitctl-')}",
            remedy="kitctl runs list shows the runs; a log file is diagnosed with 'kitctl diagnose FILE'",
            exit_code=Exit.USAGE,
        )
    if container is None:
        assert record is not None
        return diagnose(
            read_log(record.folder), failure_book(), exit_code=record.exit_code, oom_killed=record.oom_killed
        )
    return diagnose_container(container)


def diagnose_container(container: ContainerState, *, seen: str = "") -> tuple[Diagnosis, ...]:
    """What is wrong with a container in its latest life: from its log, its events, and the engine's word on its end.

    ``seen`` are further lines, said by none of its own processes. What was told when it ended is told again when the
    engine has forgotten the events since.
    """
    events = container_events(container.id)
    found = diagnose(
        f"{_log_of(container)}\n{seen}",
        failure_book(),
        exit_code=None if container.is_running else container.exit_code,
        oom_killed=was_killed_for_memory(container),
        restart_count=container.restart_count,
        health=container.health if container.health == UNHEALTHY else None,
        events=events,
    )
    known = recorded_diagnoses(container)
    return known if known and all(one.code == UNKNOWN for one in found) else found


def recorded_diagnoses(container: ContainerState) -> tuple[Diagnosis, ...]:
    """What was found when this container ended, if its run's record holds it."""
    record = load_record(container.labels.get(f"{LABEL}.run", ""))
    if record is None or record.ended is None or container.is_running:
        return ()
    return tuple(msgspec.convert(one, Diagnosis) for one in record.diagnoses)


def was_killed_for_memory(container: ContainerState) -> bool:
    """Whether a process of the container was killed for memory, by the word of the engine or of the kernel."""
    if container.oom_killed or container.is_running:
        return container.oom_killed
    return killed_for_memory(container.id) or False


def _log_of(container: ContainerState) -> str:
    """The log of the container's latest life; what was kept of it when the engine is about to remove it."""
    try:
        lines = log_lines(container.id, follow=False, life=container.started_at)
        return "\n".join(lines)
    except KitError as refused:
        if refused.exit_code is Exit.UNREACHABLE:
            raise
        return read_log(run_folder(container.labels.get(f"{LABEL}.run", "")))


def _result(subject: str, found: tuple[Diagnosis, ...]) -> Result:
    data = {
        "schema": "kitctl.diagnose/1",
        "subject": subject,
        "diagnoses": [msgspec.to_builtins(diagnosis) for diagnosis in found],
    }
    lines = diagnosis_lines(found) or [f"{subject}: nothing wrong is seen"]
    return Result(data=data, lines=tuple(lines), exit=Exit.OK)
