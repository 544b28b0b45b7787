"""One visit: bring a stack up, measure what is open, take it down, and see its GPUs empty. Every turn is journaled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from kitctl.campaign.arms import Arm
from kitctl.campaign.events import Done, Hole, Lost, Reason, Up
from kitctl.campaign.schedule import Kind, Visit, Work
from kitctl.campaign.state import is_open
from kitctl.commands.campaign_check import reason_of_error, reason_of_findings
from kitctl.commands.campaign_life import (
    clear_others,
    put_down,
    taking_down_when_cut_off,
    wait_for_engine,
    why_dead,
)
from kitctl.commands.campaign_measure import Field, do_work, server_of
from kitctl.commands.campaign_options import Starting, up_arguments
from kitctl.commands.planning import make_plan, request_of
from kitctl.commands.remedying import bring_up_remedied
from kitctl.edge.clock import monotonic_s
from kitctl.edge.journal import JournalFile
from kitctl.edge.locks import project_lock
from kitctl.edge.runs import load_record
from kitctl.errors import Exit, KitError
from kitctl.finding import blocking
from kitctl.kit.campaign import Campaign, Then
from kitctl.plan.names import project_name
from kitctl.result import Context, Result
from kitctl.watch.run_record import RunRecord

LOSSES_OF_AN_ARM = 2
LOCK_WAIT_S = 600.0


def never() -> bool:
    """No campaign has enough before its last work."""
    return False


@dataclass(frozen=True, kw_only=True)
class Run:
    """A campaign that runs. ``told``: called after each work; ``enough``: whether no further work is wanted."""

    campaign: Campaign
    digest: str
    visits: tuple[Visit, ...]
    book: JournalFile
    folder: str
    starting: Starting
    context: Context
    told: Callable[[], None]
    enough: Callable[[], bool] = never

    def is_over(self) -> bool:
        """Whether the campaign's time is spent, or enough was measured."""
        limit = self.campaign.budget.time_s
        return (limit is not None and self.book.state.active_s >= limit) or self.enough()


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
    while _ready(visit, run) and not run.is_over():
        try:
            if not _one_life(visit, run):
                return
        except KitError as gone:
            if gone.code != "engine-unreachable":
                raise
            wait_for_engine(gone, patience_s=run.campaign.failure.patience_s, context=run.context)


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
    clear_others(project_name(request_of(args)), run.starting, run.context)
    try:
        planned = make_plan(args, run.context)
    except KitError as failed:
        return _give_up_after(failed, visit.arm, run)
    wrong = blocking(planned.plan.findings)
    if wrong:
        return _give_up(visit.arm, run, reason_of_findings(wrong), Exit.REFUSED)
    project = planned.plan.project
    with (
        project_lock(project, verb=f"campaign {run.starting.name}", wait_s=LOCK_WAIT_S),
        taking_down_when_cut_off(project),
    ):
        begun_s = monotonic_s()
        try:
            result = bring_up_remedied(planned, args, run.context)
        except KitError as failed:
            return _give_up_after(failed, visit.arm, run)
        if result.exit not in (Exit.OK, Exit.GATE):
            return _give_up(visit.arm, run, _reason_of_result(result), result.exit)
        record = _note_up(visit.arm, result, args.set, run, seconds=monotonic_s() - begun_s)
        _measure_all(visit, record, project, run)
        run.book.append(put_down(visit.arm, record, run.context))
    return True


def _give_up_after(failed: KitError, arm: Arm, run: Run) -> bool:
    """A hole for what is wrong with the arm; what is wrong with this machine (engine, disk, files) is raised."""
    if failed.exit_code in (Exit.UNREACHABLE, Exit.USAGE):
        raise failed
    return _give_up(arm, run, reason_of_error(failed), failed.exit_code)


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
        if run.is_over():
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
        died = why_dead(project)
        if died is None and work.kind is not Kind.BENCH:
            return Hole(works=(work.key,), reason=reason_of_error(failed))
        return Lost(work=work.key, arm=work.arm, reason=died or reason_of_error(failed))
    if done.repeat is not None and done.repeat.errors:
        died = why_dead(project)
        if died is not None:
            return Lost(work=work.key, arm=work.arm, reason=died)
    return done


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
