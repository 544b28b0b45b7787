"""What if the stack is there already: up, loading, dead, or up by another plan?"""

from __future__ import annotations

from kitctl.commands.preparing import up_json
from kitctl.commands.projects import running_container, take_down
from kitctl.commands.starting import Target, prove_answer
from kitctl.edge.docker_engine import ContainerState
from kitctl.edge.files import read_text
from kitctl.edge.runs import load_record
from kitctl.errors import Exit, KitError
from kitctl.plan.types import Plan
from kitctl.render.compose import LABEL, decisive, fingerprint
from kitctl.render.difference import differences
from kitctl.result import Context, Result
from kitctl.watch.run_record import RunRecord


def settle_existing(
    plan: Plan, *, replace_other: bool, context: Context
) -> Result | tuple[RunRecord, ContainerState] | None:
    """A result when the plan is up already, its record and container when it is still loading, ``None`` to start anew.

    A dead container of the project is removed. Raises KitError ``other-plan-up`` (exit 3) when another plan runs and
    ``replace_other`` is not set.
    """
    container = running_container(plan.project)
    if container is None:
        return None
    if container.is_running and container.labels.get(f"{LABEL}.plan") == fingerprint(plan):
        record = load_record(container.labels.get(f"{LABEL}.run", ""))
        if record is not None:
            return _already_up(plan, record, container) or (record, container)
    elif container.is_running and not replace_other:
        raise _other_plan(plan, container)
    context.say(f"removing what is left of {plan.project} ({container.status})")
    take_down(plan.project, container)
    return None


def _already_up(plan: Plan, record: RunRecord, container: ContainerState) -> Result | None:
    key = read_text(plan.api_key_file).strip() if plan.api_key_file else None
    target = Target(
        container_id=container.id, folder=record.folder, url=record.url, model=plan.model_name, api_key=key
    )
    if record.ready is None or prove_answer(target).failure is not None:
        return None
    return Result(
        data=up_json(plan, outcome="already-up", run=record.id, url=record.url),
        lines=(f"{plan.stack.name} is up already by this plan: {record.url} since {record.ready}",),
    )


def _other_plan(plan: Plan, container: ContainerState) -> KitError:
    record = load_record(container.labels.get(f"{LABEL}.run", ""))
    known = differences(record.plan.get("decisive", {}), decisive(plan)) if record else ()
    return KitError(
        "other-plan-up",
        f"{plan.stack.name} runs by another plan",
        evidence=known or (f"container {container.name} has plan {container.labels.get(f'{LABEL}.plan')}",),
        remedy=f"kitctl up {plan.stack.name} --replace, or --name NAME and --port N to run both",
        exit_code=Exit.REFUSED,
    )
