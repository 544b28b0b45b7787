"""``kitctl down``: stop a stack and leave no container, network or port behind."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from typing import TypeGuard

from kitctl.commands.argument_types import seconds
from kitctl.commands.draining import telling_drain
from kitctl.commands.freeing import Freed, end_record, wait_until_free
from kitctl.commands.projects import (
    PROJECT_LABEL,
    add_nodes_argument,
    add_project_arguments,
    kit_containers,
    project_of,
    running_container,
    take_down,
)
from kitctl.edge.clock import monotonic_s
from kitctl.edge.docker_client import require_engine
from kitctl.edge.docker_engine import ContainerState
from kitctl.edge.kit_files import find_kit, load_kit_texts
from kitctl.edge.locks import project_lock
from kitctl.edge.runs import latest_record
from kitctl.kit.catalog import named_texts, unknown_stack
from kitctl.plan.names import plain_word, project_words
from kitctl.render.compose import LABEL
from kitctl.result import Context, Result

FREE_WITHIN_S = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``down``."""
    add_project_arguments(parser)
    add_nodes_argument(parser)
    parser.add_argument(
        "--wait-lock", type=seconds, default=0.0, metavar="S", help="wait for another kitctl to end"
    )
    parser.add_argument(
        "--free-within",
        type=seconds,
        default=FREE_WITHIN_S,
        metavar="S",
        help=f"how long to wait for the port and the GPUs' memory (default {FREE_WITHIN_S:g})",
    )


def run(args: argparse.Namespace, context: Context) -> Result:
    """Stop and remove, and see port and GPUs free; exit 0 also when nothing is up.

    Raises KitError ``unknown-stack`` (exit 2) for a name that is no stack, was never up and is not up.
    Running requests get the stack's stop grace. What still holds the port or the GPUs is named and left alone.
    """
    if args.nodes:
        from kitctl.commands.nodes import down_on_nodes

        return down_on_nodes(args, context)
    require_engine()
    project = project_of(args)
    with project_lock(project, verb=f"down {args.stack}", wait_s=args.wait_lock):
        container = running_container(project)
        begun_s = monotonic_s()
        with telling_drain(container, context.say) if _runs(container) else nullcontext():
            was_up = take_down(project)
        if not was_up:
            others = _others(args.stack)
            if not others and latest_record(project) is None:
                _require_known(args.stack, context)
            return _result(project, "was-not-up", f"{args.stack} is not up{others}")
        seconds = monotonic_s() - begun_s
        record = end_record(project)
        freed = wait_until_free(record, within_s=args.free_within, context=context) if record else Freed()
    return _result(project, "stopped", f"{args.stack} is down after {seconds:.1f} s", left=freed.lines)


def _runs(container: ContainerState | None) -> TypeGuard[ContainerState]:
    return container is not None and container.is_running


def _others(stack: str) -> str:
    """What else of the stack is up: a copy by another name, or its rehearsal."""
    names = [c.labels[PROJECT_LABEL] for c in kit_containers() if c.labels.get(f"{LABEL}.stack") == stack]
    return f"; {', '.join(map(project_words, names))} is" if names else ""


def _require_known(stack: str, context: Context) -> None:
    known = named_texts(load_kit_texts(find_kit(context.kit_dir)), "stacks")
    if plain_word(stack) not in map(plain_word, known):
        raise unknown_stack(stack, known)


def _result(project: str, outcome: str, line: str, *, left: tuple[str, ...] = ()) -> Result:
    data = {"schema": "kitctl.down/1", "project": project, "outcome": outcome, "left": list(left)}
    return Result(data=data, lines=(line, *(f"  left     {what}" for what in left)))
