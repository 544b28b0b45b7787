"""What does a campaign end in? One object that text, page and JSON are made from, with a reason for every hole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kitctl.bench.acceptance import Acceptance
from kitctl.bench.compare import point_at
from kitctl.bench.parity import Parity
from kitctl.bench.points import Point
from kitctl.bench.results import ResultFile
from kitctl.bench.speedup import SpeedModel
from kitctl.campaign.arms import Arm
from kitctl.campaign.events import Reason, Up
from kitctl.campaign.figures import broken_gates, crossovers, is_bench_of, results_of
from kitctl.campaign.recommend import Recommendation, recommend
from kitctl.campaign.schedule import Kind, Visit, is_for, reduced, schedule
from kitctl.campaign.state import State
from kitctl.kit.campaign import Campaign, CampaignLoad

REHEARSED = Reason(
    code="not-rehearsed",
    cause="a rehearsal measures fewer points than the campaign",
    remedy="run the campaign without --rehearse on the host that it is for",
)
OPEN = Reason(
    code="not-measured",
    cause="not measured yet",
    remedy="run the same command again; it goes on where it ended",
)
OTHER_LOAD = Reason(
    code="other-load", cause="the campaign asks this load of other stacks only", remedy="nothing"
)


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One point of the table: its figures, or why it is empty. ``repeats`` counts those measured of ``wanted``."""

    arm: str
    concurrency: int
    repeats: int
    wanted: int
    output_tokens_per_s: float | None = None
    interval: tuple[float, float] | None = None
    valid: bool = False
    invalid_reasons: tuple[str, ...] = ()
    accept_length: float | None = None
    power_w: float | None = None
    joules_per_token: float | None = None
    reason: Reason | None = None


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """One load's table and what follows from it."""

    load: str
    concurrency: tuple[int, ...]
    cells: tuple[Cell, ...]
    recommendation: tuple[Recommendation, ...]
    crossovers: tuple[tuple[str, str, SpeedModel], ...] = ()


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """One acceptance run or comparison of answers: what it found, or why not."""

    work: str
    arm: str
    accept: Acceptance | None = None
    parity: Parity | None = None
    reason: Reason | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The whole. ``outcome`` is ``None`` while the campaign is not over."""

    schema: str = "kitctl.campaign/1"
    name: str
    digest: str
    summary: str
    rehearsal: bool
    outcome: str | None
    begun_at: str | None
    last_at: str | None
    active_s: float
    sessions: int
    works: int
    done: int
    arms: tuple[Arm, ...]
    tables: tuple[Table, ...]
    answers: tuple[Answered, ...]
    starts: tuple[Up, ...]
    broken_gates: dict[str, str]
    holes: dict[str, Reason]


def report_of(state: State) -> Report:
    """The report of a campaign as far as it has come. The journal must have its first entry."""
    begun = state.begun
    assert begun is not None
    whole = begun.campaign
    measured = reduced(whole, rehearse=begun.rehearse)
    visits = schedule(measured, begun.arms)
    works = [work for visit in visits for work in visit.works]
    broken = broken_gates(state, whole)
    return Report(
        name=begun.name,
        digest=begun.digest,
        summary=whole.summary,
        rehearsal=begun.rehearse,
        outcome=state.ended,
        begun_at=state.begun_at,
        last_at=state.last_at,
        active_s=round(state.active_s, 1),
        sessions=state.sessions,
        works=len(works),
        done=sum(work.key in state.done for work in works),
        arms=begun.arms,
        tables=tuple(_table(state, whole, measured, load, broken) for load in whole.loads),
        answers=_answered(state, visits),
        starts=tuple(up for ups in state.ups.values() for up in ups),
        broken_gates=broken,
        holes=dict(state.holes),
    )


def _table(
    state: State, whole: Campaign, measured: Campaign, load: CampaignLoad, broken: Mapping[str, str]
) -> Table:
    results = results_of(state, load.title)
    small = next(found for found in measured.loads if found.title == load.title)
    concurrency = tuple(sorted({*load.concurrency, *small.concurrency}))
    arms = state.begun.arms if state.begun else ()
    cells = tuple(
        _cell(state, results, small, arm=arm, concurrency=c, wanted=measured.repeats)
        for arm in arms
        for c in concurrency
    )
    return Table(
        load=load.title,
        concurrency=concurrency,
        cells=cells,
        recommendation=() if measured.rehearse else recommend(results, gates=whole.gates, excluded=broken),
        crossovers=crossovers(state, whole, load.title),
    )


def _cell(
    state: State,
    results: Sequence[ResultFile],
    load: CampaignLoad,
    *,
    arm: Arm,
    concurrency: int,
    wanted: int,
) -> Cell:
    result = next((r for r in results if r.head.label == arm.id), None)
    point = point_at(result, (concurrency, None)) if result else None
    if point is not None:
        return _measured(arm.id, concurrency, point, wanted)
    reason = _why_empty(state, load, arm, concurrency)
    return Cell(arm=arm.id, concurrency=concurrency, repeats=0, wanted=wanted, reason=reason)


def _measured(arm: str, concurrency: int, point: Point, wanted: int) -> Cell:
    power, rate = point.gpu.power_w if point.gpu else None, point.output_tokens_per_s
    return Cell(
        arm=arm,
        concurrency=concurrency,
        repeats=point.repeats,
        wanted=wanted,
        output_tokens_per_s=rate,
        interval=point.output_tokens_per_s_interval,
        valid=point.valid,
        invalid_reasons=point.invalid_reasons,
        accept_length=point.accept_length,
        power_w=power,
        joules_per_token=power / rate if power and rate else None,
    )


def _why_empty(state: State, load: CampaignLoad, arm: Arm, concurrency: int) -> Reason:
    if not is_for(load, arm):
        return OTHER_LOAD
    for key, reason in state.holes.items():
        if is_bench_of(key, arm.id, load.title, concurrency):
            return reason
    return OPEN if concurrency in load.concurrency else REHEARSED


def _answered(state: State, visits: Sequence[Visit]) -> tuple[Answered, ...]:
    found = []
    for visit in visits:
        for work in visit.works:
            if work.kind in (Kind.BENCH, Kind.ANSWERS):
                continue
            done = state.done.get(work.key)
            reason = None if done else state.holes.get(work.key, OPEN)
            found.append(
                Answered(
                    work=work.key,
                    arm=work.arm,
                    accept=done.accept if done else None,
                    parity=done.parity if done else None,
                    reason=reason,
                )
            )
    return tuple(found)
