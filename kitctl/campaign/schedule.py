"""What is measured, and in which order? As few loads as the rounds allow, repeats rotated, answers before comparisons.

A work is the smallest unit that a resumed campaign repeats: one repeat of one point, one acceptance run at one
concurrency, one set of greedy answers, one comparison. A visit is one load of one stack and its works.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from kitctl.bench.workload import rotate
from kitctl.campaign.arms import Arm, plain_arm
from kitctl.kit.campaign import Campaign, CampaignLoad, Only


class Kind(StrEnum):
    """What a work does."""

    ANSWERS = "answers"
    ACCEPT = "accept"
    PARITY = "parity"
    BENCH = "bench"


@dataclass(frozen=True, kw_only=True)
class Work:
    """One unit. ``load``: the title of its load; ``needs``: the key of the work whose answers it compares with."""

    arm: str
    kind: Kind
    load: str | None = None
    concurrency: int | None = None
    repeat: int = 0
    needs: str | None = None

    @property
    def key(self) -> str:
        """Its name in the journal: ``ep4 bench kit C=32 #1``."""
        words = [self.arm, str(self.kind)]
        words += [self.load] if self.load is not None else []
        words += [f"C={self.concurrency}"] if self.concurrency is not None else []
        words += [f"#{self.repeat + 1}"] if self.kind is Kind.BENCH else []
        return " ".join(words)


@dataclass(frozen=True, kw_only=True)
class Visit:
    """One load of one arm and what is then measured."""

    arm: Arm
    round: int
    works: tuple[Work, ...]


def reduced(campaign: Campaign, *, rehearse: bool) -> Campaign:
    """The campaign as it is measured: in a rehearsal its loads are cut to what a CPU does in minutes."""
    if not rehearse:
        return campaign
    small = campaign.rehearsal
    loads = tuple(
        msgspec.structs.replace(
            load,
            concurrency=small.concurrency,
            requests_per_stream=small.requests_per_stream,
            output_tokens=small.output_tokens,
        )
        for load in campaign.loads
    )
    return msgspec.structs.replace(campaign, loads=loads, repeats=small.repeats, rehearse=True)


def not_rehearsed(campaign: Campaign, arms: Sequence[Arm]) -> tuple[Work, ...]:
    """The points of the whole campaign that its rehearsal leaves out, one work a point."""
    small = set(campaign.rehearsal.concurrency)
    return tuple(
        Work(arm=arm.id, kind=Kind.BENCH, load=load.title, concurrency=concurrency)
        for arm in arms
        for load in campaign.loads
        if is_for(load, arm)
        for concurrency in load.concurrency
        if concurrency not in small
    )


def is_for(load: CampaignLoad, arm: Arm) -> bool:
    """Whether the arm is measured under the load."""
    return load.only is Only.ALL or (load.only is Only.DRAFTER) == arm.has_drafter


def order_arms(
    campaign: Campaign, arms: Sequence[Arm], neighbours: Mapping[str, tuple[str, ...]]
) -> tuple[Arm, ...]:
    """Arms of the same image and model beside one another (their files are then in memory), plain ones before the
    drafters that are compared with them, else as in the file. ``neighbours``: image and model by arm id."""
    groups: dict[tuple[str, ...], list[Arm]] = {}
    for arm in arms:
        groups.setdefault(neighbours.get(arm.id, ()), []).append(arm)
    plain = campaign.parity.plain if campaign.parity else {}
    placed: list[Arm] = []
    for arm in (arm for group in groups.values() for arm in group):
        first = plain_arm(arm, arms, plain)
        placed += [other for other in (first, arm) if other is not None and other not in placed]
    return tuple(placed)


def schedule(campaign: Campaign, arms: Sequence[Arm]) -> tuple[Visit, ...]:
    """All visits; each round begins with another arm, so that drift hits no arm alone. ``arms`` in order.

    The first round asks answers and acceptance; comparisons follow the answers they need.
    """
    visits: list[Visit] = []
    rounds = min(campaign.rounds, campaign.repeats)
    for number in range(rounds):
        at = number % len(arms)
        for arm in (*arms[at:], *arms[:at]):
            works = (
                *(_answers(campaign, arm, arms) if number == 0 else ()),
                *_benches(campaign, arm, number, rounds),
            )
            if works:
                visits.append(Visit(arm=arm, round=number, works=works))
    return tuple(visits)


def _answers(campaign: Campaign, arm: Arm, arms: Sequence[Arm]) -> tuple[Work, ...]:
    plain = campaign.parity.plain if campaign.parity else {}
    found: list[Work] = []
    if any(plain_arm(other, arms, plain) == arm for other in arms):
        found.append(Work(arm=arm.id, kind=Kind.ANSWERS))
    if campaign.accept is not None and arm.has_drafter:
        found += [Work(arm=arm.id, kind=Kind.ACCEPT, concurrency=c) for c in campaign.accept.concurrency]
    against = plain_arm(arm, arms, plain)
    if against is not None:
        needs = Work(arm=against.id, kind=Kind.ANSWERS).key
        found.append(Work(arm=arm.id, kind=Kind.PARITY, needs=needs))
    return tuple(found)


def _benches(campaign: Campaign, arm: Arm, number: int, rounds: int) -> tuple[Work, ...]:
    return tuple(
        Work(arm=arm.id, kind=Kind.BENCH, load=load.title, concurrency=step.concurrency, repeat=step.repeat)
        for load in campaign.loads
        if is_for(load, arm)
        for step in rotate(load.concurrency, (), campaign.repeats)
        if step.repeat % rounds == number
    )
