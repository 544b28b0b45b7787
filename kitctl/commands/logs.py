"""``kitctl logs``: what the engine said; the kept copy when the container is gone."""

from __future__ import annotations

import argparse

from kitctl.commands.argument_types import count
from kitctl.commands.projects import add_project_arguments, project_of, running_container
from kitctl.edge.container_log import log_lines
from kitctl.edge.docker_client import require_engine
from kitctl.edge.runs import latest_record, read_log
from kitctl.errors import Exit, KitError
from kitctl.result import Context, Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``logs``."""
    add_project_arguments(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on as lines come")
    parser.add_argument("-n", "--tail", type=count, metavar="N", help="only the last N lines")


def run(args: argparse.Namespace, context: Context) -> Result:
    """The log to stdout. Raises KitError ``no-log`` (exit 3) for a stack that never ran here."""
    require_engine()
    project = project_of(args)
    container = running_container(project)
    if container is not None:
        lines = log_lines(container.id, follow=args.follow, tail=args.tail)
        if not context.as_json:
            return Result(data={}, stream=lines)
        return _as_json(project, [*log_lines(container.id, follow=False, tail=args.tail)])
    record = latest_record(project)
    if record is None:
        raise KitError(
            "no-log",
            f"{args.stack} has never run here",
            remedy=f"kitctl up {args.stack}",
            exit_code=Exit.REFUSED,
        )
    context.say(f"the container is gone; this is the log of run {record.id}")
    kept = read_log(record.folder).splitlines()
    kept = kept if args.tail is None else kept[len(kept) - min(args.tail, len(kept)) :]
    return _as_json(project, kept) if context.as_json else Result(data={}, lines=tuple(kept))


def _as_json(project: str, lines: list[str]) -> Result:
    return Result(data={"schema": "kitctl.logs/1", "project": project, "lines": lines})
