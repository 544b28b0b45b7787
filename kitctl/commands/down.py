"""``kitctl down``: stop a stack and leave no container, network or port behind."""

from __future__ import annotations

import argparse

import msgspec

from kitctl.commands.argument_types import seconds
from kitctl.commands.projects import (
    PROJECT_LABEL,
    add_project_arguments,
    kit_containers,
    project_of,
    running_container,
    take_down,
)
from kitctl.edge.clock import monotonic_s
from kitctl.edge.docker_client import require_engine
from kitctl.edge.locks import project_lock
from kitctl.edge.runs import latest_record, now_utc, save_record
from kitctl.render.compose import LABEL
from kitctl.result import Context, Result
from kitctl.watch.run_record import Outcome


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``down``."""
    add_project_arguments(parser)
    parser.add_argument(
        "--wait-lock", type=seconds, default=0.0, metavar="S", help="wait for another kitctl to end"
    )


def run(args: argparse.Namespace, context: Context) -> Result:
    """Stop and remove; exit 0 also when nothing is up. Running requests get the stack's stop grace."""
    require_engine()
    project = project_of(args)
    with project_lock(project, verb=f"down {args.stack}", wait_s=args.wait_lock):
        container = running_container(project)
        if container is not None:
            context.say(f"stopping {container.name}; requests in flight are finished first")
        begun_s = monotonic_s()
        if not take_down(project):
            return _result(project, "was-not-up", f"{args.stack} is not up{_others(args.stack)}")
        _record_end(project)
    return _result(project, "stopped", f"{args.stack} is down after {monotonic_s() - begun_s:.1f} s")


def _others(stack: str) -> str:
    """What else of the stack is up: a copy by another name, or its rehearsal."""
    names = [c.labels[PROJECT_LABEL] for c in kit_containers() if c.labels.get(f"{LABEL}.stack") == stack]
    return f"; {', '.join(names)} is: say --name or --rehearse" if names else ""


def _record_end(project: str) -> None:
    record = latest_record(project)
    if record is not None and record.ended is None:
        save_record(msgspec.structs.replace(record, outcome=Outcome.STOPPED, ended=now_utc()))


def _result(project: str, outcome: str, line: str) -> Result:
    return Result(data={"schema": "kitctl.down/1", "project": project, "outcome": outcome}, lines=(line,))
