"""What a campaign does with containers around a visit: clear what was left, take down, see GPUs empty, wait out."""

from __future__ import annotations

import msgspec

from kitctl.campaign.arms import Arm
from kitctl.campaign.events import Down, Reason
from kitctl.commands.campaign_options import Starting
from kitctl.commands.diagnose import diagnose_container
from kitctl.commands.planning import Planned
from kitctl.commands.projects import kit_containers, running_container, take_down
from kitctl.edge.clock import monotonic_s, sleep_s
from kitctl.edge.docker_engine import PROJECT_LABEL
from kitctl.edge.runs import latest_record, now_utc, save_record
from kitctl.errors import KitError
from kitctl.plan.names import project_name
from kitctl.plan.types import Request
from kitctl.result import Context
from kitctl.watch.run_record import Outcome

GPU_EMPTY_WAIT_S = 60.0
GPU_LEFT_MIB = 512
OUTAGE_POLL_S = 5.0


def left_up(starting: Starting) -> tuple[str, ...]:
    """Projects of this campaign that have a container now."""
    mark = f"--{starting.name}"
    projects = (container.labels[PROJECT_LABEL] for container in kit_containers())
    return tuple(p for p in projects if p.endswith(mark) or f"{mark}--" in p)


def clear_others(project: str, starting: Starting, context: Context) -> None:
    """Take down the containers that an interrupted session of this campaign left up, but ``project``'s."""
    for other in left_up(starting):
        if other != project:
            context.say(f"taking down {other}, which an interrupted session left up")
            end_record(other, was_up=take_down(other))


def clear_all(stacks: tuple[str, ...], starting: Starting) -> None:
    """Take down whatever is left of any of the stacks, networks without a container as well."""
    for stack in stacks:
        project = project_name(Request(stack=stack, name=starting.name, rehearse=starting.rehearse))
        end_record(project, was_up=take_down(project))


def put_down(arm: Arm, planned: Planned, context: Context) -> Down:
    """Take the stack down and see the GPUs as empty as before its start."""
    begun_s = monotonic_s()
    project = planned.plan.project
    end_record(project, was_up=take_down(project))
    free = _gpus_empty(planned, context)
    if free is False:
        context.say(f"{arm.id}: its GPUs still hold memory after {GPU_EMPTY_WAIT_S:.0f} s")
    return Down(arm=arm.id, seconds=round(monotonic_s() - begun_s, 2), gpu_memory_free=free)


def end_record(project: str, *, was_up: bool) -> None:
    """Note in the project's newest record that it was stopped."""
    record = latest_record(project)
    if was_up and record is not None and record.ended is None:
        save_record(msgspec.structs.replace(record, outcome=Outcome.STOPPED, ended=now_utc()))


def _gpus_empty(planned: Planned, context: Context) -> bool | None:
    """Whether the plan's GPUs hold no more than before it started; ``None`` when it has none or none can be read."""
    wanted = set(planned.plan.gpus.indices)
    before = {gpu.index: gpu.memory_used_mib or 0 for gpu in planned.facts.gpus or ()}
    if not wanted:
        return None
    from kitctl.edge.probe_runner import gather_host_facts

    until_s = monotonic_s() + GPU_EMPTY_WAIT_S
    while True:
        facts = gather_host_facts(engine=context.engine, disks=(), trials=False)
        used = {gpu.index: gpu.memory_used_mib for gpu in facts.gpus or () if gpu.index in wanted}
        if not used or any(value is None for value in used.values()):
            return None
        if all((value or 0) <= before.get(index, 0) + GPU_LEFT_MIB for index, value in used.items()):
            return True
        if monotonic_s() >= until_s:
            return False
        sleep_s(OUTAGE_POLL_S)


def why_dead(project: str) -> Reason | None:
    """Why the stack does not run any more; ``None`` when it runs."""
    container = running_container(project)
    if container is None:
        return Reason(code="gone", cause="the container was removed while it was measured")
    if container.is_running:
        return None
    found = diagnose_container(container)
    if not found:
        return Reason(code="ended", cause=f"the engine ended with exit code {container.exit_code}")
    first = found[0]
    return Reason(code=first.code, cause=first.cause, evidence=tuple(first.evidence), remedy=first.remedy)


def wait_for_engine(gone: KitError, *, patience_s: float, context: Context) -> None:
    """Return when the container engine answers again; raises ``gone`` when it does not in time."""
    until_s = monotonic_s() + patience_s
    context.say(f"{gone.cause}; waiting up to {patience_s:.0f} s for it")
    while monotonic_s() < until_s:
        sleep_s(OUTAGE_POLL_S)
        try:
            kit_containers()
        except KitError:
            continue
        context.say("the container engine answers again")
        return
    raise gone
