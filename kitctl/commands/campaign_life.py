"""What a campaign does with containers around a visit: clear what was left, take down, see GPUs empty, wait out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kitctl.campaign.arms import Arm
from kitctl.campaign.events import Down, Reason
from kitctl.commands.campaign_options import Starting
from kitctl.commands.diagnose import diagnose_container
from kitctl.commands.freeing import end_record, wait_until_free
from kitctl.commands.projects import kit_containers, running_container, take_down
from kitctl.edge.clock import monotonic_s, sleep_s
from kitctl.edge.docker_engine import PROJECT_LABEL
from kitctl.edge.signals import uninterrupted
from kitctl.errors import KitError
from kitctl.plan.names import project_name
from kitctl.plan.types import Request
from kitctl.result import Context
from kitctl.watch.run_record import RunRecord

FREE_WAIT_S = 60.0
INTERRUPT_GRACE_S = 3
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
            stop(other)


def clear_all(stacks: tuple[str, ...], starting: Starting) -> None:
    """Take down whatever is left of any of the stacks, networks without a container as well."""
    for stack in stacks:
        project = project_name(Request(stack=stack, name=starting.name, rehearse=starting.rehearse))
        stop(project)


def put_down(arm: Arm, record: RunRecord, context: Context) -> Down:
    """Take the stack of ``record`` down and see its port and GPUs as free as before its start."""
    begun_s = monotonic_s()
    stop(record.project)
    freed = wait_until_free(record, within_s=FREE_WAIT_S, context=context)
    for line in freed.lines:
        context.say(f"{arm.id}: left after its end: {line}")
    seconds = round(monotonic_s() - begun_s, 2)
    return Down(arm=arm.id, seconds=seconds, gpu_memory_free=freed.are_gpus_free)


def stop(project: str, *, grace_s: int | None = None) -> None:
    """Take the project down and, if it was up, note that in its record."""
    if take_down(project, grace_s=grace_s):
        end_record(project)


@contextmanager
def taking_down_when_cut_off(project: str) -> Iterator[None]:
    """Whatever ends the block early takes the project down, with less time for running requests than it has."""
    try:
        yield
    except BaseException:
        with uninterrupted(), suppress(KitError):  # an engine that is away now is the failure that is told
            stop(project, grace_s=INTERRUPT_GRACE_S)
        raise


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
