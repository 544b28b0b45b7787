"""``kitctl restart``: the same container again, and wait until it answers."""

from __future__ import annotations

import argparse

from kitctl.commands.argument_types import seconds
from kitctl.commands.draining import telling_drain
from kitctl.commands.projects import add_project_arguments, project_of, require_container
from kitctl.commands.waiting import wait_for_container
from kitctl.commands.waiting_options import add_waiting_arguments
from kitctl.edge.docker_engine import restart_container
from kitctl.edge.locks import project_lock
from kitctl.edge.runs import load_record
from kitctl.render.compose import LABEL
from kitctl.result import Context, Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``restart``."""
    add_project_arguments(parser)
    add_waiting_arguments(parser)
    parser.add_argument(
        "--wait-lock", type=seconds, default=0.0, metavar="S", help="wait for another kitctl to end"
    )


def run(args: argparse.Namespace, context: Context) -> Result:
    """Stop with the stack's grace, start, wait; exit codes as ``wait``."""
    project = project_of(args)
    with project_lock(project, verb=f"restart {args.stack}", wait_s=args.wait_lock):
        container = require_container(project)
        record = load_record(container.labels.get(f"{LABEL}.run", ""))
        grace_s = int(record.plan["settings"]["serve"]["stop_grace_s"]) if record else 60
        with telling_drain(container, context.say):
            restart_container(container.id, grace_s=grace_s)
        return wait_for_container(
            container, timeout_s=args.timeout, stalled_s=args.stall_after, context=context
        )
