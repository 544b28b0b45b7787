"""``kitctl ps``: the stacks on this engine."""

from __future__ import annotations

import argparse

from kitctl.commands.projects import kit_containers
from kitctl.commands.status import status_row
from kitctl.edge.docker_client import require_engine
from kitctl.result import Context, Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``ps``."""
    del parser


def run(args: argparse.Namespace, context: Context) -> Result:
    """One row a container that kitctl started, as the engine and the records tell it."""
    del args, context
    require_engine()
    rows = [status_row(container) for container in kit_containers()]
    lines = [
        f"{row['project']:28}  {row['state']:10}  {row['url'] or '-':28}  {','.join(row['overlays']):10}"
        for row in rows
    ]
    return Result(data={"schema": "kitctl.ps/1", "stacks": rows}, lines=tuple(lines) or ("nothing is up",))
