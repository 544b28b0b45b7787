"""The start itself: from a judged plan to a stack that answers, with nothing left over when it fails."""

from __future__ import annotations

import argparse

import msgspec

from kitctl import __version__
from kitctl.commands.existing import settle_existing
from kitctl.commands.planning import Planned
from kitctl.commands.preparing import ensure_image, ensure_models
from kitctl.commands.projects import running_container, take_down
from kitctl.commands.starting import READY_PROMPT, Started, Target, wait_until_ready
from kitctl.commands.up_results import failed_result, ready_result, record_failure, record_ready
from kitctl.edge.clock import monotonic_s, wall_clock_s
from kitctl.edge.compose_cli import compose_config, compose_up
from kitctl.edge.docker_engine import ContainerState
from kitctl.edge.files import read_text
from kitctl.edge.runs import new_run_id, now_utc, run_folder, save_record, write_project
from kitctl.host.facts_json import encode_facts
from kitctl.render.as_planned import require_as_planned
from kitctl.render.compose import base_url, fingerprint, plan_json, render_compose
from kitctl.result import Context, Result
from kitctl.watch.run_record import Outcome, PhaseTime, RunModel, RunRecord
from kitctl.watch.start import Verdict


def bring_up(planned: Planned, args: argparse.Namespace, context: Context) -> Result:
    """Start the plan and stay until it answers. Whatever ends it early leaves no container behind."""
    existing = settle_existing(planned.plan, replace_other=args.replace, context=context)
    if isinstance(existing, Result):
        return existing
    begun_s = monotonic_s()
    record, container = existing if existing else prepare_and_start(planned, args, context)
    target = target_of(planned, record, container)
    deadline_s = wall_clock_s() + (args.timeout or 2 * planned.plan.stack.serve.start_period_s)
    try:
        started = wait_until_ready(target, deadline_s=deadline_s, say=context.say)
        if started.verdict is Verdict.ASK:
            record = record_ready(record, started, seconds=monotonic_s() - begun_s)
            return ready_result(planned.plan, record, started)
        context.say(f"engine: {ended_words(started)}")
        return failed_result(planned.plan, record_failure(record, started), started)
    except BaseException as stopped:
        give_up(record, stopped)
        raise
    finally:
        if record.outcome is not Outcome.READY:
            take_down(planned.plan.project, container)


def prepare_and_start(
    planned: Planned, args: argparse.Namespace, context: Context
) -> tuple[RunRecord, ContainerState]:
    """Image, models, rendered project, container: each phase timed. A failure leaves nothing started."""
    plan = planned.plan
    clock = monotonic_s()
    image_id = ensure_image(planned, may_build=not args.no_build, context=context)
    phases, clock = lap((), "image", clock, context)
    models = ensure_models(planned, may_pull=not args.no_pull, context=context)
    phases, clock = lap(phases, "model", clock, context)
    record = new_record(planned, args, image_id=image_id, models=models)
    api_key = read_text(plan.api_key_file).strip() if plan.api_key_file else None
    overlays = tuple(planned.kit.overlays[name] for name in plan.overlays)
    files = render_compose(plan, base=planned.kit.base, overlays=overlays, run_id=record.id, api_key=api_key)
    write_project(record.folder, files)
    require_as_planned(compose_config(record.folder, plan.project), plan)
    save_record(record)
    try:
        compose_up(record.folder, plan.project)
    except BaseException as stopped:
        take_down(plan.project, running_container(plan.project))
        give_up(record, stopped)
        raise
    phases, _ = lap(phases, "start", clock, context)
    container = running_container(plan.project)
    assert container is not None
    record = msgspec.structs.replace(
        record, container_id=container.id, argv_live=container.argv, phases=phases
    )
    save_record(record)
    return record, container


def lap(
    phases: tuple[PhaseTime, ...], name: str, since_s: float, context: Context
) -> tuple[tuple[PhaseTime, ...], float]:
    """Close a phase: its time goes into the record and to the person."""
    now_s = monotonic_s()
    context.say(f"{name}: {now_s - since_s:.1f} s")
    return (*phases, PhaseTime(name=name, seconds=round(now_s - since_s, 2))), now_s


def new_record(
    planned: Planned, args: argparse.Namespace, *, image_id: str, models: tuple[RunModel, ...]
) -> RunRecord:
    """The record of a run that is about to start."""
    plan = planned.plan
    run_id = new_run_id(plan.project)
    return RunRecord(
        id=run_id,
        stack=plan.stack.name,
        project=plan.project,
        fingerprint=fingerprint(plan),
        kitctl=__version__,
        command=("up", args.stack),
        started=now_utc(),
        outcome=Outcome.STARTING,
        url=base_url(plan),
        served_model=plan.model_name,
        plan=plan_json(plan),
        facts=encode_facts(planned.facts),
        image_id=image_id,
        models=models,
        api_key_file=plan.api_key_file,
        folder=run_folder(run_id),
    )


def target_of(planned: Planned, record: RunRecord, container: ContainerState) -> Target:
    """Where to look for the answer, and which one the stack expects."""
    plan = planned.plan
    api_key = read_text(plan.api_key_file).strip() if plan.api_key_file else None
    return Target(
        container_id=container.id,
        folder=record.folder,
        url=record.url,
        model=plan.model_name,
        prompt=plan.stack.expect.prompt or READY_PROMPT,
        api_key=api_key,
    )


def ended_words(started: Started) -> str:
    """How the start ended, for a person, at once."""
    if started.verdict is Verdict.TOO_LATE:
        return "not ready in time"
    if started.container is None:
        return "the container is gone"
    if started.container.is_running:
        return "a fatal line was logged and the process hangs"
    return f"ended with exit code {started.container.exit_code}"


def give_up(record: RunRecord, stopped: BaseException) -> None:
    """Note in the record that the run was stopped before it was ready."""
    outcome = Outcome.INTERRUPTED if isinstance(stopped, KeyboardInterrupt) else Outcome.FAILED
    save_record(msgspec.structs.replace(record, outcome=outcome, ended=now_utc()))
