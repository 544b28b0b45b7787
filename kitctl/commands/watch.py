"""``kitctl watch``: report a stack's changes of state as they come, and run a command at each."""

from __future__ import annotations

import argparse
import shlex

from kitctl.commands.argument_types import some_seconds
from kitctl.commands.projects import add_nodes_argument, add_project_arguments, project_of
from kitctl.commands.stack_life import follow_stack
from kitctl.commands.watching import Report
from kitctl.edge.docker_client import require_engine
from kitctl.result import Context, Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``watch``."""
    add_project_arguments(parser)
    add_nodes_argument(parser)
    parser.add_argument(
        "--exec", metavar="CMD", help="run CMD at each change; it gets the change as JSON on stdin"
    )
    parser.add_argument(
        "--every", type=some_seconds, default=5.0, metavar="S", help="pause between health requests"
    )
    parser.add_argument(
        "--patience",
        type=some_seconds,
        default=25.0,
        metavar="S",
        help="how long a health request may take (the engine itself gives up after 20 s)",
    )
    parser.add_argument(
        "--gpus-every",
        type=some_seconds,
        default=60.0,
        metavar="S",
        help="pause between looks at the GPUs from inside the container",
    )
    parser.add_argument("--once", action="store_true", help="end when the stack is dead or gone")


def run(args: argparse.Namespace, context: Context) -> Result:
    """One line (``--json``: one object) a change, until interrupted or, with ``--once``, until the stack is dead."""
    if args.nodes:
        from kitctl.commands.nodes import watch_on_nodes

        return watch_on_nodes(args, context)
    require_engine()
    report = Report(
        project=project_of(args),
        hook=tuple(shlex.split(args.exec)) if args.exec else (),
        as_json=context.as_json,
        say=context.say,
        every_s=args.every,
        patience_s=args.patience,
        gpus_every_s=args.gpus_every,
        once=args.once,
    )
    return Result(data={}, stream=follow_stack(report))
