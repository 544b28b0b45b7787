"""What if the stack is there already: up, loading, dead, or up by another plan?"""

from __future__ import annotations

import argparse

import msgspec

from kitctl.commands.own_command import own_command
from kitctl.commands.planning import api_key_of
from kitctl.commands.preparing import up_json
from kitctl.commands.projects import running_container, take_down
from kitctl.commands.starting import Target, prove_answer
from kitctl.edge.docker_engine import ContainerState
from kitctl.edge.runs import load_record
from kitctl.errors import Exit, KitError
from kitctl.kit.stack import Expect
from kitctl.plan.names import project_words
from kitctl.plan.types import Plan
from kitctl.render.compose import LABEL, base_url, decisive, fingerprint
from kitctl.render.difference import differences
from kitctl.result import Context, Result
from kitctl.watch.run_record import RunRecord


def settle_existing(plan: Plan, args: argparse.Namespace, context: Context) -> Result | ContainerState | None:
    """A result when the plan is up already, its container when that does not answer yet, ``None`` to start anew.

    A dead container of the project is removed. Raises KitError ``other-plan-up`` (exit 3) when another plan runs and
    ``--replace`` is not given.
    """
    container = running_container(plan.project)
    if container is None:
        return None
    if container.is_running and _has_this_plan(container, plan, args):
        return _already_up(plan, container) or container
    context.say(f"removing what is left of {plan.project} ({container.status})")
    take_down(plan.project)
    return None


def foresee_existing(plan: Plan, args: argparse.Namespace) -> str:
    """What ``up`` would do with the stack that is there, or is not: ``would-start``, ``already-up``,
    ``would-wait`` (it loads), ``would-replace``.

    Changes nothing. Raises KitError as ``settle_existing`` does.
    """
    container = running_container(plan.project)
    if container is None or not container.is_running:
        return "would-start"
    if _has_this_plan(container, plan, args):
        return "already-up" if _already_up(plan, container) else "would-wait"
    return "would-replace"


def _has_this_plan(container: ContainerState, plan: Plan, args: argparse.Namespace) -> bool:
    """Whether what runs does so by this plan; another plan is raised unless ``--replace`` is given."""
    if container.labels.get(f"{LABEL}.plan") == fingerprint(plan):
        return True
    if not args.replace:
        raise _other_plan(plan, container, args)
    return False


def _already_up(plan: Plan, container: ContainerState) -> Result | None:
    """Proof by one real answer; the record is not needed for it."""
    run = container.labels.get(f"{LABEL}.run", "")
    record = load_record(run)
    if record is not None and record.ready is None:
        return None
    target = Target(
        container_id=container.id,
        folder="",
        url=base_url(plan),
        model=plan.model_name,
        api_key=api_key_of(plan),
        serves=plan.rank is None or plan.rank.serves,
    )
    if prove_answer(target).failure is not None:
        return None
    since = record.ready if record else container.started_at
    return Result(
        data=up_json(plan, outcome="already-up", run=run, url=target.url),
        lines=(
            f"{plan.stack.name} is up already by this plan: {target.url} since {since}",
            *(_other_expectations(record, plan) if record else ()),
        ),
    )


def _other_expectations(record: RunRecord, plan: Plan) -> tuple[str, ...]:
    """What the stack expects of its answers changes no plan; its first answers were judged by what it said then.

    Nothing where another kitctl wrote the record and knew other expectations.
    """
    try:
        before = msgspec.convert(record.plan.get("settings", {}).get("expect", {}), Expect)
    except msgspec.ValidationError:
        return ()
    changed = differences(
        {"expect": msgspec.to_builtins(before)}, {"expect": msgspec.to_builtins(plan.stack.expect)}
    )
    if not changed:
        return ()
    return (
        f"its answers were judged by other expectations when it started ({'; '.join(changed)}):",
        f"  kitctl down {project_words(plan.project)}, and up again, to have them judged by these",
    )


def _other_plan(plan: Plan, container: ContainerState, args: argparse.Namespace) -> KitError:
    record = load_record(container.labels.get(f"{LABEL}.run", ""))
    known = differences(record.plan.get("decisive", {}), decisive(plan)) if record else ()
    stack = container.labels.get(f"{LABEL}.stack", "")
    return KitError(
        "other-plan-up",
        f"{stack} runs by another plan",
        evidence=known or (f"container {container.name} has plan {container.labels.get(f'{LABEL}.plan')}",),
        remedy=f"{own_command(args, '--replace')}, or another --name NAME and --port N to run both",
        exit_code=Exit.REFUSED,
    )
