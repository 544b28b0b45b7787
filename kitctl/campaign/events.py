"""What can happen in a campaign? The entries of its journal, one type a kind of event."""

from __future__ import annotations

from typing import Any

import msgspec

from kitctl.bench.acceptance import Acceptance
from kitctl.bench.measure import Repeat
from kitctl.bench.parity import Parity
from kitctl.bench.workload import Spec
from kitctl.campaign.arms import Arm
from kitctl.kit.campaign import Campaign, Scalar
from kitctl.watch.run_record import PhaseTime


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why a cell is empty: a finding's, a diagnosis's or an error's code, cause, evidence and remedy."""

    code: str
    cause: str
    evidence: tuple[str, ...] = ()
    remedy: str = ""


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag="begun"):
    """The first entry: the campaign as it was read, its arms in order, and what it was begun with."""

    name: str
    digest: str
    rehearse: bool
    campaign: Campaign
    arms: tuple[Arm, ...]
    kitctl: str
    source: str = ""


class Session(msgspec.Struct, frozen=True, kw_only=True, tag="session"):
    """A kitctl took the campaign up, for the first time or again."""

    kitctl: str


class Up(msgspec.Struct, frozen=True, kw_only=True, tag="up"):
    """A stack answers. ``settings``: those that a remedy added; ``doubts``: what the canary found."""

    arm: str
    run: str
    outcome: str
    seconds: float
    phases: tuple[PhaseTime, ...] = ()
    settings: tuple[str, ...] = ()
    image_id: str | None = None
    models: tuple[str, ...] = ()
    kv_tokens: int | None = None
    doubts: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()


class Down(msgspec.Struct, frozen=True, kw_only=True, tag="down"):
    """A stack is down. ``gpu_memory_free``: whether its GPUs were seen empty; ``None`` when it had none."""

    arm: str
    seconds: float
    gpu_memory_free: bool | None = None


class Done(msgspec.Struct, frozen=True, kw_only=True, tag="done"):
    """A work is complete: what it measured is in this entry, or (answers) in ``file`` beside the journal."""

    work: str
    arm: str
    run: str
    seconds: float
    spec: Spec | None = None
    served: tuple[str, ...] | None = None
    repeat: Repeat | None = None
    accept: Acceptance | None = None
    parity: Parity | None = None
    file: str | None = None
    sha256: str | None = None


class Lost(msgspec.Struct, frozen=True, kw_only=True, tag="lost"):
    """The stack died, or did not answer, while the work was measured; it may be tried again."""

    work: str
    arm: str
    reason: Reason


class Hole(msgspec.Struct, frozen=True, kw_only=True, tag="hole"):
    """These works will not be measured, and why."""

    works: tuple[str, ...]
    reason: Reason


class Reopened(msgspec.Struct, frozen=True, kw_only=True, tag="reopened"):
    """The user wants the holes tried again."""


class Asked(msgspec.Struct, frozen=True, kw_only=True, tag="asked"):
    """A trial of a search begins with these settings."""

    trial: int
    settings: tuple[tuple[str, Scalar], ...]


class Judged(msgspec.Struct, frozen=True, kw_only=True, tag="judged"):
    """A trial ended: ``complete``, ``stopped`` (early: it was losing) or ``failed``; ``values`` one a repeat."""

    trial: int
    outcome: str
    value: float | None
    values: tuple[float, ...] = ()
    reason: Reason | None = None


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """Nothing more will be measured for now: ``complete``, ``time-budget`` or ``stopped``."""

    outcome: str


class SearchBegun(msgspec.Struct, frozen=True, kw_only=True, tag="search"):
    """The first entry of a search: the stack, what is aimed at, and the space, as they were read."""

    stack: str
    digest: str
    target: dict[str, Any]
    space: dict[str, tuple[Scalar, ...]]
    kitctl: str


Event = Begun | Session | Up | Down | Done | Lost | Hole | Reopened | Asked | Judged | Ended | SearchBegun


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a journal: its number from 1, when (UTC) and what."""

    n: int
    at: str
    event: Event
