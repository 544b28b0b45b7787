"""``kitctl watch``: report a stack's changes of state as they come, and run a command at each."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from functools import partial

from kitctl.commands.projects import add_project_arguments, project_of, running_container
from kitctl.commands.status import recorded_key
from kitctl.commands.watching import Report, report_change, wait_for_container
from kitctl.edge.container_watch import Ended, Line, Probed, watch_container
from kitctl.edge.docker_client import require_engine
from kitctl.edge.docker_engine import ContainerState
from kitctl.edge.failure_book import failure_book
from kitctl.edge.serving import is_healthy
from kitctl.render.compose import LABEL
from kitctl.result import Context, Result
from kitctl.watch.state import (
    Change,
    StackState,
    Watched,
    change_between,
    saw_end,
    saw_line,
    saw_probe,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``watch``."""
    add_project_arguments(parser)
    parser.add_argument(
        "--exec", metavar="CMD", help="run CMD at each change; it gets the change as JSON on stdin"
    )
    parser.add_argument("--every", type=float, default=5.0, metavar="S", help="pause between health requests")
    parser.add_argument(
        "--patience",
        type=float,
        default=25.0,
        metavar="S",
        help="how long a health request may take (the engine itself gives up after 20 s)",
    )
    parser.add_argument("--once", action="store_true", help="end when the stack is dead or gone")


def run(args: argparse.Namespace, context: Context) -> Result:
    """One line (``--json``: one object) a change, until interrupted or, with ``--once``, until the stack is dead."""
    require_engine()
    report = Report(
        project=project_of(args),
        hook=tuple(shlex.split(args.exec)) if args.exec else (),
        as_json=context.as_json,
        say=context.say,
    )
    return Result(
        data={}, stream=_changes(report, every_s=args.every, patience_s=args.patience, once=args.once)
    )


def _changes(report: Report, *, every_s: float, patience_s: float, once: bool) -> Iterator[str]:
    state = StackState.ABSENT
    known: str | None = None
    while True:
        container = running_container(report.project)
        if container is None or (container.started_at == known and not container.is_running):
            if container is None and state is not StackState.ABSENT:
                gone = Change(before=state, after=StackState.ABSENT, why="the container is gone")
                yield report_change(report, gone, None)
                state = StackState.ABSENT
            if once:
                return
            wait_for_container(report.project, known)
            continue
        known = container.started_at
        for change in _life(container, state, every_s=every_s, patience_s=patience_s):
            state = change.after
            yield report_change(report, change, container)


def _life(
    container: ContainerState, state: StackState, *, every_s: float, patience_s: float
) -> Iterator[Change]:
    """The changes of one life of one container, to its end."""
    book, seen = failure_book(), Watched()
    probe = partial(
        is_healthy,
        container.labels.get(f"{LABEL}.url", ""),
        api_key=recorded_key(container),
        timeout_s=patience_s,
    )
    for event in watch_container(container.id, probe=probe, every_s=every_s):
        if isinstance(event, Line):
            seen = saw_line(seen, event.text, book=book, at_s=event.at_s)
        elif isinstance(event, Probed):
            seen = saw_probe(seen, healthy=event.healthy)
        elif isinstance(event, Ended):
            seen = saw_end(seen, event.exit_code)
        change = change_between(state, seen)
        if change is not None:
            state = change.after
            yield change
