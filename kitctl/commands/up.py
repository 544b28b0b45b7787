"""``kitctl up``: check, fetch, build, start, wait until the stack truly answers, record."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kitctl.commands.argument_types import count, seconds
from kitctl.commands.planning import add_plan_arguments, make_plan, request_of
from kitctl.commands.preparing import dry_run_result, refused_result
from kitctl.commands.projects import add_nodes_argument, running_container
from kitctl.commands.rank_options import add_rank_arguments
from kitctl.commands.rank_results import with_image, without_own_port
from kitctl.commands.waiting_options import add_stall_argument
from kitctl.edge.docker_client import require_engine
from kitctl.edge.locks import project_lock
from kitctl.edge.runs import latest_record
from kitctl.edge.warming import warm_up
from kitctl.errors import Exit, KitError, is_interrupt
from kitctl.finding import blocking, skipped_in_vain
from kitctl.plan.names import project_name, project_words
from kitctl.plan.types import Plan
from kitctl.result import Context, Result

DEFAULT_TRIES = 3
STARTER = "kitctl.commands.remedying"
"""Imported beside the plan, since it is needed only after it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``up``."""
    add_plan_arguments(parser)
    add_rank_arguments(parser)
    add_nodes_argument(parser)
    parser.add_argument("--replace", action="store_true", help="take down what runs by another plan first")
    parser.add_argument("--dry-run", action="store_true", help="check everything, change nothing")
    parser.add_argument("--no-build", action="store_true", help="refuse instead of building a missing image")
    parser.add_argument(
        "--no-pull",
        action="store_true",
        help="refuse instead of fetching a missing model (one that comes with kitctl is placed)",
    )
    parser.add_argument("--no-canary", action="store_true", help="do not judge the first answers")
    parser.add_argument(
        "--auto-remedy",
        nargs="?",
        type=count,
        const=DEFAULT_TRIES,
        default=0,
        metavar="N",
        help=f"after a failure with a known ladder try up to N changes (default: {DEFAULT_TRIES})",
    )
    parser.add_argument(
        "--timeout", type=seconds, metavar="S", help="seconds to wait for ready (default: derived)"
    )
    add_stall_argument(parser)
    parser.add_argument(
        "--wait-lock", type=seconds, default=0.0, metavar="S", help="wait for another kitctl to end"
    )


def run(args: argparse.Namespace, context: Context) -> Result:
    """Bring the stack up; exit 0 only after it has answered one real generation."""
    if args.nodes:
        from kitctl.commands.nodes import up_on_nodes

        return up_on_nodes(args, context)
    if args.facts and not args.dry_run:
        raise facts_of_elsewhere(args.stack)
    warm_up(STARTER)
    project = project_name(request_of(args))
    with project_lock(project, verb=f"up {args.stack}", wait_s=args.wait_lock, dry_run=args.dry_run):
        planned = make_plan(args, context)
        for line in skipped_in_vain(planned.plan.findings, args.skip):
            context.say(line)
        require_engine()
        planned = without_own_port(planned)
        if blocking(planned.plan.findings):
            return refused_result(planned.plan)
        if args.dry_run:
            from kitctl.commands.existing import foresee_existing

            outcome = foresee_existing(planned.plan, args)
            return with_image(dry_run_result(planned.plan, outcome), planned.plan)
        from kitctl.commands.remedying import bring_up_remedied

        with telling_what_stays(planned.plan, context):
            return bring_up_remedied(planned, args, context)


@contextmanager
def telling_what_stays(plan: Plan, context: Context) -> Iterator[None]:
    """On an interrupt say that the stack stays up, where it does: it was ready before, or was being judged."""
    try:
        yield
    except BaseException as stopped:
        with suppress(KitError):
            if is_interrupt(stopped) and plan.rank is None and _is_ready_and_up(plan.project):
                words = project_words(plan.project)
                context.say(f"{plan.stack.name} stays up: it was ready before; kitctl down {words} ends it")
        raise


def _is_ready_and_up(project: str) -> bool:
    container, record = running_container(project), latest_record(project)
    return container is not None and container.is_running and record is not None and record.ready is not None


def facts_of_elsewhere(stack: str) -> KitError:
    """``up`` starts on the host that it sees, never on what a file says of another."""
    return KitError(
        "facts-of-elsewhere",
        "up starts here, and --facts describes a host from a file",
        remedy=f"kitctl plan {stack} --facts FILE, or up with --dry-run",
        exit_code=Exit.USAGE,
    )
