"""Campaigns and journals for tests, made without an engine."""

from __future__ import annotations

import random
from collections.abc import Sequence

from kitctl.bench.measure import Repeat, StreamRate
from kitctl.bench.workload import Endpoint, Spec
from kitctl.campaign.arms import Arm, expand_arms
from kitctl.campaign.events import Begun, Done, Entry, Event, Up
from kitctl.campaign.journal import FIRST_SUM, seal
from kitctl.campaign.schedule import Kind, Visit, order_arms, reduced, schedule
from kitctl.kit.campaign import Campaign, CampaignLoad, ParityRuns, campaign_digest
from kitctl.watch.run_record import PhaseTime


def begun_of(campaign: Campaign, drafters: dict[str, bool], *, rehearse: bool = False) -> Begun:
    arms = order_arms(campaign, expand_arms(campaign, drafters=drafters), {})
    digest = campaign_digest(campaign, rehearse=rehearse)
    return Begun(name="c", digest=digest, rehearse=rehearse, campaign=campaign, arms=arms, kitctl="0")


def visits_of(begun: Begun) -> tuple[Visit, ...]:
    return schedule(reduced(begun.campaign, rehearse=begun.rehearse), begun.arms)


def small(
    stacks: Sequence[str] = ("plain", "drafted"), concurrency: tuple[int, ...] = (1, 8), **more: object
) -> Campaign:
    loads = (CampaignLoad(concurrency=concurrency),)
    return Campaign(summary="s", stacks=tuple(stacks), loads=loads, **more)  # type: ignore[arg-type]


def with_parity(**more: object) -> Campaign:
    return small(parity=ParityRuns(plain={"drafted": "plain"}), **more)  # type: ignore[arg-type]


def done_of(key: str, arm: str, *, concurrency: int, repeat: int, rate: float, seconds: float = 10.0) -> Done:
    """A complete repeat whose streams together bring ``rate`` tokens a second."""
    rng = random.Random(key)
    streams = tuple(
        StreamRate(
            output_tokens=round(rate * 10 / concurrency * rng.uniform(0.995, 1.005)),
            prompt_tokens=100,
            completed=9,
            seconds=10.0,
        )
        for _ in range(concurrency)
    )
    tokens = sum(stream.output_tokens for stream in streams)
    count = 9 * concurrency
    made = Repeat(
        concurrency=concurrency, request_rate=None, repeat=repeat, seed=1, requests=count, errors=0, error_kinds={},
        stops={"stop": count}, stopped_early=0, models={"demo": count}, unknown_tokens=0, zero_tokens=0, not_streamed=0,
        window_s=10.0, window_completed=count, streams=streams, streams_wanted=concurrency, duration_s=10.0,
        output_tokens=tokens, prompt_tokens=100 * count, cached_tokens=0, answered=count, ttft_ms=(5.0,) * count,
        tpot_ms=(1.0,) * count, e2e_ms=(50.0,) * count, lengths=(10,) * count, itl_bins={0: 1.0}, gap_bins={0: 1.0},
        chunks=tokens,
    )  # fmt: skip
    spec = Spec(model="demo", endpoint=Endpoint.CHAT, dataset="kit")
    return Done(
        work=key, arm=arm, run=f"run-{arm}", seconds=seconds, spec=spec, served=("demo",), repeat=made
    )


def up_of(arm: str, **more: object) -> Up:
    phases = (PhaseTime(name="weights", seconds=8.0), PhaseTime(name="total", seconds=10.0))
    fields = {"run": f"run-{arm}", "outcome": "ready", "seconds": 10.0, "phases": phases} | more
    return Up(arm=arm, **fields)  # type: ignore[arg-type]


def measured(begun: Begun, rates: dict[tuple[str, int], float]) -> list[Event]:
    """The events of an undisturbed campaign that measures these rates by arm and concurrency."""
    events: list[Event] = [begun]
    for visit in visits_of(begun):
        events.append(up_of(visit.arm.id))
        for work in visit.works:
            if work.kind is Kind.BENCH and work.concurrency is not None:
                rate = rates[visit.arm.id, work.concurrency]
                events.append(
                    done_of(
                        work.key, visit.arm.id, concurrency=work.concurrency, repeat=work.repeat, rate=rate
                    )
                )
    return events


def entries_of(events: Sequence[Event], *, every_s: int = 10) -> list[Entry]:
    return [Entry(n=n + 1, at=stamp(n * every_s), event=event) for n, event in enumerate(events)]


def stamp(second: int) -> str:
    return f"2026-11-29T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.000Z"


def written(events: Sequence[Event]) -> bytes:
    """The events as a journal's bytes."""
    raw, last = b"", FIRST_SUM
    for entry in entries_of(events):
        line, last = seal(entry.event, at=entry.at, number=entry.n, last_sum=last)
        raw += line
    return raw


PLAIN = Arm(id="plain", stack="plain")
