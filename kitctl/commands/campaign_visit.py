"""One visit: bring a stack up, measure what is open, take it down, and see its GPUs empty. Every turn is journaled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from kitctl.campaign.arms import Arm
from kitctl.campaign.events import Done, Down, Event, Hole, Lost, Reason, Up
from kitctl.campaign.schedule import Kind, Visit, Work
from kitctl.campaign.state import is_open
from kitctl.commands.campaign_check import reason_of_error, reason_of_findings
from kitctl.commands.campaign_measure import Field, do_work, server_of
from kitctl.commands.campaign_options import Starting, up_arguments
from kitctl.commands.diagnose import diagnose_container
from kitctl.commands.planning import Planned, make_plan
from kitctl.commands.projects import kit_containers, running_container, take_down
from kitctl.commands.remedying import bring_up_remedied
from kitctl.edge.clock import monotonic_s, sleep_s
from kitctl.edge.docker_engine import PROJECT_LABEL
from kitctl.edge.journal import JournalFile
from kitctl.edge.locks import project_lock
from kitctl.edge.runs import latest_record, load_record, now_utc, save_record
from kitctl.edge.signals import uninterrupted
from kitctl.errors import Exit, KitError
from kitctl.finding import blocking
from kitctl.kit.campaign import Campaign, Then
from kitctl.result import Context, Result
from kitctl.watch.run_record import Outcome, RunRecord

GPU_EMPTY_WAIT_S = 60.0
GPU_LEFT_MIB = 512
INTERRUPT_GRACE_S = 3
OUTAGE_POLL_S = 5.0
LOSSES_OF_AN_ARM = 2


@dataclass(frozen=True, kw_only=True)
class Run:
    """A campaign that runs. ``told``: called after each work, to say how far it is."""

    campaign: Campaign
    digest: str
    visits: tuple[Visit, ...]
    book: JournalFile
    folder: str
    starting: Starting
    context: Context
    told: Callable[[], None]

    def is_over_time(self) -> bool:
        """Whether the campaign's time is spent."""
        limit = self.campaign.budget.time_s
        return limit is not None and self.book.state.active_s >= limit


class StoppedError(Exception):
    """The failure policy ends the campaign; ``code`` is what the failed start ended with."""

    def __init__(self, code: Exit) -> None:
        super().__init__(code)
        self.code = code


def visit_arm(visit: Visit, run: Run) -> None:
    """Measure all that is open of the visit, however often its stack or the container engine goes away.

    Raises StoppedError, and KitError ``engine-unreachable`` (exit 10) when the engine stays away longer than
    ``failure.patience_s``.
    """
    while _ready(visit, run) and not run.is_over_time():
        try:
            if not _one_life(visit, run):
                return
        except KitError as gone:
            if gone.code != "engine-unreachable":
                raise
            _wait_for_engine(run, gone)


def _ready(visit: Visit, run: Run) -> tuple[Work, ...]:
    """Open works whose needs are met; those that need what will never be become holes."""
    state = run.book.state
    works = []
    for work in visit.works:
        if not is_open(work.key, state):
            continue
        if work.needs is not None and work.needs in state.holes:
            because = state.holes[work.needs]
            reason = msgspec.structs.replace(because, cause=f"{work.needs} is missing: {because.cause}")
            run.book.append(Hole(works=(work.key,), reason=reason))
        elif work.needs is None or work.needs in state.done:
            works.append(work)
    return tuple(works)


def _one_life(visit: Visit, run: Run) -> bool:
    """From start to end of one container. False: the arm cannot be brought up; its works are holes then."""
    args = up_arguments(visit.arm, run.starting, more=run.book.state.settings.get(visit.arm.id, ()))
    planned = make_plan(args, run.context)
    wrong = blocking(planned.plan.findings)
    if wrong:
        return _give_up(visit.arm, run, reason_of_findings(wrong), Exit.REFUSED)
    project = planned.plan.project
    with project_lock(project, verb=f"campaign {run.starting.name}"):
        clear_others(project, run)
        begun_s = monotonic_s()
        try:
            result = bring_up_remedied(planned, args, run.context)
        except KitError as failed:
            if failed.exit_code is Exit.UNREACHABLE:
                raise
            return _give_up(visit.arm, run, reason_of_error(failed), failed.exit_code)
        if result.exit not in (Exit.OK, Exit.GATE):
            return _give_up(visit.arm, run, _reason_of_result(result), result.exit)
        try:
            record = _note_up(visit.arm, result, args.set, run, seconds=monotonic_s() - begun_s)
            _measure_all(visit, record, project, run)
        except BaseException:
            with uninterrupted():
                _end_record(project, take_down(project, grace_s=INTERRUPT_GRACE_S))
            raise
        _put_down(visit.arm, planned, run)
    return True


def clear_others(project: str, run: Run) -> None:
    """Take down all that an interrupted session of this campaign left up, but ``project``."""
    mark = f"--{run.starting.name}"
    for container in kit_containers():
        other = container.labels[PROJECT_LABEL]
        if other != project and (other.endswith(mark) or f"{mark}--" in other):
            run.context.say(f"taking down {other}, which an interrupted session left up")
            _end_record(other, take_down(other))


def _give_up(arm: Arm, run: Run, reason: Reason, code: Exit) -> bool:
    """All that is open of the arm becomes a hole; with ``then: stop`` the campaign ends."""
    works = tuple(
        work.key
        for visit in run.visits
        if visit.arm.id == arm.id
        for work in visit.works
        if is_open(work.key, run.book.state)
    )
    run.context.say(f"{arm.id}: {len(works)} works become holes: {reason.cause} ({reason.code})")
    run.book.append(Hole(works=works, reason=reason))
    if run.campaign.failure.then is Then.STOP:
        raise StoppedError(code)
    return False


def _reason_of_result(result: Result) -> Reason:
    """Why a start failed: its first diagnosis, else how it ended."""
    found = list(result.data.get("diagnoses") or ())
    tried = [word for one in result.data.get("remedies") or () for word in one["settings"]]
    evidence = (f"tried as well: {' '.join(tried)}",) if tried else ()
    run_id = str(result.data.get("run", ""))
    if found:
        first = found[0]
        return Reason(
            code=str(first["code"]),
            cause=str(first["cause"]),
            evidence=(*(str(line) for line in first.get("evidence", ())), *evidence),
            remedy=str(first.get("remedy", "")),
        )
    return Reason(
        code=str(result.data["outcome"]),
        cause=result.lines[-1] if result.lines else "it did not come up",
        evidence=evidence,
        remedy=f"kitctl runs show {run_id}" if run_id else "kitctl doctor",
    )


def _note_up(arm: Arm, result: Result, settings: Sequence[str], run: Run, *, seconds: float) -> RunRecord:
    record = load_record(str(result.data["run"]))
    if record is None:
        raise KitError(
            "record-lost",
            f"the record of run {result.data['run']} cannot be read",
            remedy="run the same command again",
            exit_code=Exit.START,
        )
    canary = record.canary or {}
    run.book.append(
        Up(
            arm=arm.id,
            run=record.id,
            outcome=str(result.data["outcome"]),
            seconds=round(seconds, 2),
            phases=record.phases,
            settings=tuple(settings[len(arm.words) :]),
            image_id=record.image_id,
            models=tuple(f"{m.model}@{m.commit or m.content_hash}" for m in record.models),
            kv_tokens=record.kv_tokens,
            doubts=tuple(
                str(found["cause"])
                for found in canary.get("findings") or ()
                if found.get("severity") != "note"
            ),
            left_out=tuple((str(path), str(why)) for path, why in record.plan.get("left_out") or ()),
        )
    )
    return record


def _measure_all(visit: Visit, record: RunRecord, project: str, run: Run) -> None:
    """Work after work until all are done, the time is spent, or the stack dies."""
    place = Field(
        campaign=run.campaign,
        digest=run.digest,
        server=server_of(record, label=visit.arm.id),
        run=record.id,
        folder=run.folder,
        context=run.context,
    )
    for work in _ready(visit, run):
        if run.is_over_time():
            return
        event = _measured(work, place, project, run)
        run.book.append(event)
        if isinstance(event, Lost):
            _close_lost(visit, work, event.reason, run)
            return
        run.told()


def _measured(work: Work, place: Field, project: str, run: Run) -> Done | Lost | Hole:
    """What came of a work. A stack that died meanwhile makes it lost, whatever the figures say."""
    needed = run.book.state.done.get(work.needs) if work.needs else None
    try:
        done = do_work(work, place, needed=needed)
    except KitError as failed:
        if failed.code == "engine-unreachable":
            raise
        died = _why_dead(project)
        if died is None and work.kind is not Kind.BENCH:
            return Hole(works=(work.key,), reason=reason_of_error(failed))
        return Lost(work=work.key, arm=work.arm, reason=died or reason_of_error(failed))
    if done.repeat is not None and done.repeat.errors:
        died = _why_dead(project)
        if died is not None:
            return Lost(work=work.key, arm=work.arm, reason=died)
    return done


def _why_dead(project: str) -> Reason | None:
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


def _close_lost(visit: Visit, work: Work, reason: Reason, run: Run) -> None:
    """A work lost too often is a hole; so is the rest of a visit whose stack dies again and again."""
    run.context.say(f"{work.key}: lost: {reason.cause} ({reason.code})")
    limit = run.campaign.failure.losses
    losses = run.book.state.losses
    if len(losses.get(work.key, ())) >= limit:
        run.book.append(Hole(works=(work.key,), reason=reason))
    mine = sum(len(found) for key, found in losses.items() if key.startswith(f"{visit.arm.id} "))
    if mine >= limit * LOSSES_OF_AN_ARM:
        again = msgspec.structs.replace(
            reason, cause=f"not tried: the stack died {mine} times: {reason.cause}"
        )
        _give_up(visit.arm, run, again, Exit.CRASHED)


def _put_down(arm: Arm, planned: Planned, run: Run) -> None:
    """Take the stack down and see the GPUs as empty as before its start."""
    begun_s = monotonic_s()
    project = planned.plan.project
    _end_record(project, take_down(project))
    free = _gpus_empty(planned, run)
    if free is False:
        run.context.say(f"{arm.id}: its GPUs still hold memory after {GPU_EMPTY_WAIT_S:.0f} s")
    event: Event = Down(arm=arm.id, seconds=round(monotonic_s() - begun_s, 2), gpu_memory_free=free)
    run.book.append(event)


def _end_record(project: str, was_up: bool) -> None:
    record = latest_record(project)
    if was_up and record is not None and record.ended is None:
        save_record(msgspec.structs.replace(record, outcome=Outcome.STOPPED, ended=now_utc()))


def _gpus_empty(planned: Planned, run: Run) -> bool | None:
    """Whether the plan's GPUs hold no more than before it started; ``None`` when it has none or none can be read."""
    wanted = set(planned.plan.gpus.indices)
    before = {gpu.index: gpu.memory_used_mib or 0 for gpu in planned.facts.gpus or ()}
    if not wanted:
        return None
    from kitctl.edge.probe_runner import gather_host_facts

    until_s = monotonic_s() + GPU_EMPTY_WAIT_S
    while True:
        facts = gather_host_facts(engine=run.context.engine, disks=(), trials=False)
        used = {gpu.index: gpu.memory_used_mib for gpu in facts.gpus or () if gpu.index in wanted}
        if not used or any(value is None for value in used.values()):
            return None
        if all((value or 0) <= before.get(index, 0) + GPU_LEFT_MIB for index, value in used.items()):
            return True
        if monotonic_s() >= until_s:
            return False
        sleep_s(OUTAGE_POLL_S)


def _wait_for_engine(run: Run, gone: KitError) -> None:
    """Return when the container engine answers again; raises ``gone`` when it does not in time."""
    until_s = monotonic_s() + run.campaign.failure.patience_s
    run.context.say(f"{gone.cause}; waiting up to {run.campaign.failure.patience_s:.0f} s for it")
    while monotonic_s() < until_s:
        sleep_s(OUTAGE_POLL_S)
        try:
            kit_containers()
        except KitError:
            continue
        run.context.say("the container engine answers again")
        return
    raise gone
