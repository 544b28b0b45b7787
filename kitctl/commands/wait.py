"""``kitctl wait``: return when a stack answers, or say why it will not."""

from __future__ import annotations

import argparse

from kitctl.commands.projects import add_project_arguments, project_of, require_container
from kitctl.commands.waiting import wait_for_container
from kitctl.commands.waiting_options import add_waiting_arguments
from kitctl.result import Context, Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``wait``."""
    add_project_arguments(parser)
    add_waiting_arguments(parser)


def run(args: argparse.Namespace, context: Context) -> Result:
    """Exit 0 when the stack answers, 7 when it died, 8 when the time is over."""
    container = require_container(project_of(args))
    return wait_for_container(container, timeout_s=args.timeout, stalled_s=args.stall_after, context=context)
