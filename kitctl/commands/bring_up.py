"""The start itself: from a judged plan to a stack that answers, with nothing left over when it fails."""

from __future__ import annotations

import argparse

import msgspec

from kitctl import __version__
from kitctl.commands.canary import run_canary
from kitctl.commands.existing import settle_existing
from kitctl.commands.measure_start import deadline_after_s, yardstick_of
from kitctl.commands.named_failure import known_refusals
from kitctl.commands.planning import Planned, api_key_of, key_files_of
from kitctl.commands.preparing import ensure_image, ensure_models, require_whole_caches
from kitctl.commands.projects import running_container, take_down
from kitctl.commands.rank_results import with_rank
from kitctl.commands.starting import READY_PROMPT, Started, Target, first_answer_tokens, wait_until_ready
from kitctl.commands.up_results import (
    failed_result,
    ready_result,
    record_canary,
    record_failure,
    record_ready,
    silent_result,
)
from kitctl.edge.clock import monotonic_s, sleep_s
from kitctl.edge.compose_cli import compose_config, compose_up
from kitctl.edge.docker_engine import ContainerState, set_restart_policy
from kitctl.edge.runs import (
    has_record,
    load_record,
    new_run_id,
    next_order,
    now_utc,
    run_folder,
    save_record,
    write_project,
)
from kitctl.edge.signals import uninterrupted
from kitctl.errors import Exit, KitError, is_interrupt
from kitctl.host.facts_json import encode_facts
from kitctl.render.as_planned import require_as_planned
from kitctl.render.compose import (
    LABEL,
    RESTART_NEVER,
    base_url,
    fingerprint,
    plan_json,
    render_compose,
)
from kitctl.result import Context, Result
from kitctl.watch.run_record import Outcome, PhaseTime, RunRecord
from kitctl.watch.start import Verdict

GRACE_OF_FAILED_S = 3
LATE_CONTAINER_S = 0.3
RESTART_LIVE_AT_BOOT = "always"
"""Of a container that was seen ready. An engine that was killed finds its containers running, ends them and takes that
for a stop by hand, after which ``unless-stopped`` brings nothing back (measured, Docker Engine 28.5.2)."""


def bring_up(planned: Planned, args: argparse.Namespace, context: Context) -> Result:
    """Start the plan and stay until it answers. Whatever ends it early leaves no container behind."""
    existing = settle_existing(planned.plan, args, context)
    if isinstance(existing, Result):
        return existing
    begun_s = monotonic_s()
    record = adopt_run(planned, args, existing) if existing else prepare_run(planned, args, context)
    was_ready = record.ready is not None
    try:
        record, container = (record, existing) if existing else start_run(planned, record, context)
        target, yardstick = target_of(planned, record, container), yardstick_of(planned)
        deadline_s = monotonic_s() + deadline_after_s(planned, yardstick, timeout_s=args.timeout)
        started = wait_until_ready(
            target,
            deadline_s=deadline_s,
            say=context.say,
            yardstick=yardstick,
            stalled_s=args.stall_after,
        )
        if started.verdict is Verdict.ASK and started.answer is not None:
            record = record_ready(record, started, seconds=monotonic_s() - begun_s)
            if planned.plan.boot:
                set_restart_policy(container.id, RESTART_LIVE_AT_BOOT)
            report = None
            if target.serves and not args.no_canary:
                report = run_canary(target, planned.plan.stack, started.answer, say=context.say)
            record = record_canary(planned.plan, record, report)
            return with_rank(ready_result(planned.plan, record, started, report), planned.plan, record)
        context.say(f"engine: {started.why}")
        if was_ready and container_lives(started):
            return silent_result(planned.plan, record)
        failed = record_failure(record, started)
        with uninterrupted():
            take_down(planned.plan.project, grace_s=GRACE_OF_FAILED_S)
        return failed_result(planned.plan, failed, started)
    except BaseException as stopped:
        if not was_ready and record.outcome is not Outcome.READY:
            clear_away(record, stopped, context)
        raise


def prepare_run(planned: Planned, args: argparse.Namespace, context: Context) -> RunRecord:
    """Image and models, each timed; the record of the run that may now start."""
    clock = monotonic_s()
    image_id = ensure_image(planned, may_build=not args.no_build, context=context, skip=frozenset(args.skip))
    require_whole_caches(planned.plan)
    phases, clock = lap((), "image", clock, context)
    models = ensure_models(planned, may_pull=not args.no_pull, context=context)
    phases, _ = lap(phases, "model", clock, context)
    record = new_record(planned, args, run_id=new_run_id(planned.plan.project), image_id=image_id)
    return msgspec.structs.replace(record, models=models, phases=phases)


def adopt_run(planned: Planned, args: argparse.Namespace, container: ContainerState) -> RunRecord:
    """The record of a container that another kitctl started; a new one when that is lost or unreadable."""
    run_id = container.labels.get(f"{LABEL}.run") or new_run_id(planned.plan.project)
    found = load_record(run_id)
    if found is not None:
        return found
    record = new_record(planned, args, run_id=run_id, image_id=container.image_id)
    adopted = msgspec.structs.replace(record, container_id=container.id, argv_live=container.argv)
    save_record(adopted)
    return adopted


def start_run(planned: Planned, record: RunRecord, context: Context) -> tuple[RunRecord, ContainerState]:
    """Rendered project and container, which is not restarted before it was ready once.

    Raises KitError (exit 2, 3 or 6).
    """
    plan = planned.plan
    clock = monotonic_s()
    overlays = tuple(planned.kit.overlays[name] for name in plan.overlays)
    files = render_compose(
        plan, base=planned.kit.base, overlays=overlays, run_id=record.id, key_files=key_files_of(plan)
    )
    write_project(record.folder, files)
    save_record(record)
    require_as_planned(compose_config(record.folder, plan.project), plan)
    with known_refusals():
        compose_up(record.folder, plan.project)
    phases, _ = lap(record.phases, "start", clock, context)
    container = running_container(plan.project)
    if container is None:
        raise gone_at_once(plan.project)
    if plan.boot:
        set_restart_policy(container.id, RESTART_NEVER)
    started = msgspec.structs.replace(
        record, container_id=container.id, argv_live=container.argv, phases=phases
    )
    save_record(started)
    return started, container


def lap(
    phases: tuple[PhaseTime, ...], name: str, since_s: float, context: Context
) -> tuple[tuple[PhaseTime, ...], float]:
    """Close a phase: its time goes into the record and to the person."""
    now_s = monotonic_s()
    context.say(f"{name}: {now_s - since_s:.1f} s")
    return (*phases, PhaseTime(name=name, seconds=round(now_s - since_s, 2))), now_s


def new_record(planned: Planned, args: argparse.Namespace, *, run_id: str, image_id: str) -> RunRecord:
    """The record of a run that is about to start."""
    plan = planned.plan
    return RunRecord(
        id=run_id,
        stack=plan.stack.name,
        project=plan.project,
        fingerprint=fingerprint(plan),
        kitctl=__version__,
        command=("up", args.stack, *(word for text in args.set for word in ("--set", text))),
        started=now_utc(),
        outcome=Outcome.STARTING,
        url=base_url(plan),
        served_model=plan.model_name,
        plan=plan_json(plan),
        facts=encode_facts(planned.facts),
        image_id=image_id,
        api_key_file=plan.api_key_file,
        folder=run_folder(run_id),
        order=next_order(),
    )


def target_of(planned: Planned, record: RunRecord, container: ContainerState) -> Target:
    """Where to look for the answer, and which one the stack expects."""
    plan = planned.plan
    return Target(
        container_id=container.id,
        folder=record.folder,
        url=record.url,
        model=plan.model_name,
        prompt=plan.stack.expect.prompt or READY_PROMPT,
        max_tokens=first_answer_tokens(plan.stack.expect.answer),
        api_key=api_key_of(plan),
        serves=plan.rank is None or plan.rank.serves,
        gpus=len(plan.gpus.ids),
    )


def clear_away(record: RunRecord, stopped: BaseException, context: Context) -> None:
    """Remove what was started, until nothing more comes, and note in the record why. Cannot be interrupted."""
    with uninterrupted():
        try:
            while take_down(record.project, grace_s=GRACE_OF_FAILED_S):
                sleep_s(LATE_CONTAINER_S)
            outcome = Outcome.INTERRUPTED if is_interrupt(stopped) else Outcome.FAILED
            if has_record(record.folder):
                save_record(msgspec.structs.replace(record, outcome=outcome, ended=now_utc()))
        except KitError as failed:
            context.say(f"clean-up: {failed.cause}; kitctl down {record.stack} does the rest")


def container_lives(started: Started) -> bool:
    """Whether the container still runs."""
    return started.container is not None and started.container.is_running


def gone_at_once(project: str) -> KitError:
    """The error for a container that somebody removed while it started."""
    return KitError(
        "start-failed",
        f"the container of {project} is gone right after its start",
        evidence=("compose had started it; something else removed it",),
        remedy="run the same command again; docker events shows who removes it",
        exit_code=Exit.START,
    )
