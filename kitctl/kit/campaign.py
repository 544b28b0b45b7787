"""What may a campaign file say? Which stacks, under which loads, how often, within which budget, what on failure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from kitctl.errors import Exit, KitError
from kitctl.kit.bounds import LEAST_SECONDS, MOST_SECONDS, MOST_TEMPERATURE
from kitctl.kit.stack import Count
from kitctl.kit.typed import read_typed
from kitctl.kit.yaml_reader import read_yaml

Scalar = str | int | float | bool
Concurrencies = Annotated[tuple[Count, ...], msgspec.Meta(min_length=1)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Pause = Annotated[float, msgspec.Meta(ge=LEAST_SECONDS, le=MOST_SECONDS)]
"""Seconds of waiting, as the commands' own options take them."""


class Only(StrEnum):
    """Which stacks a load is for."""

    ALL = "all"
    PLAIN = "plain"
    DRAFTER = "drafter"


class Then(StrEnum):
    """What follows a failed start: climb the failure's remedy ladder, leave a hole, or end the campaign."""

    REMEDY = "remedy"
    SKIP = "skip"
    STOP = "stop"


class CampaignLoad(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of the report. ``dataset``: ``random``, ``kit`` or a file, as ``kitctl bench --dataset`` takes it."""

    name: str | None = None
    dataset: str = "kit"
    concurrency: Concurrencies
    only: Only = Only.ALL
    requests_per_stream: Count = 5
    input_tokens: Count = 128
    output_tokens: Count | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=MOST_TEMPERATURE)] = 0.0
    timeout_s: Pause = 600.0

    @property
    def title(self) -> str:
        """Its name in keys and tables."""
        return self.name or self.dataset


class AcceptRuns(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Acceptance lengths of the stacks with a drafter. ``prompts``: only the first N of the set."""

    concurrency: Concurrencies = (1,)
    dataset: str = "kit"
    prompts: Count | None = None
    output_tokens: Count = 512


class ParityRuns(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Greedy answers with a drafter against those of its plain stack. ``plain``: plain stack by drafter stack."""

    plain: dict[str, str]
    dataset: str = "kit"
    prompts: Count = 50


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Time that kitctl works on the campaign, and bytes that it may fetch; ``None`` does not bound."""

    time_s: Positive | None = None
    disk_bytes: Count | None = None


class Gates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a stack must keep to be recommended; a broken gate ends the campaign with exit 9."""

    accept_length_least: Positive | None = None
    parity: bool = False
    ttft_p99_ms: Positive | None = None
    tpot_p99_ms: Positive | None = None


class FailurePolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``tries``: rungs of the ladder a start may climb. A point that is lost ``losses`` times to a dead stack becomes
    a hole; ``patience_s``: how long to wait for a container engine that went away."""

    then: Then = Then.REMEDY
    tries: Count = 3
    losses: Count = 2
    patience_s: Pause = 600.0


class Reduced(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a rehearsal on the CPU measures in place of the whole."""

    concurrency: Concurrencies = (1, 2)
    requests_per_stream: Count = 5
    output_tokens: Count = 16
    repeats: Count = 2


class Campaign(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An unattended series. ``matrix``: values by stack setting, every combination of which is tried on every stack;
    ``rounds``: how often each stack is loaded anew, its repeats spread over the rounds."""

    summary: str
    stacks: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    loads: Annotated[tuple[CampaignLoad, ...], msgspec.Meta(min_length=1)]
    matrix: dict[str, tuple[Scalar, ...]] = {}
    repeats: Count = 3
    rounds: Count = 1
    accept: AcceptRuns | None = None
    parity: ParityRuns | None = None
    budget: Budget = Budget()
    gates: Gates = Gates()
    failure: FailurePolicy = FailurePolicy()
    rehearse: bool = False
    rehearsal: Reduced = Reduced()


def read_campaign(text: str, *, source: str) -> Campaign:
    """The campaign in ``text``. Raises KitError ``bad-yaml`` or ``bad-campaign`` (exit 2) with file and field."""
    tree = read_yaml(text, source=source)
    campaign = read_typed(tree, Campaign, source_of=lambda path: source, code="bad-campaign")
    _refuse_twice([load.title for load in campaign.loads], "loads", source, "give each a name of its own")
    _refuse_twice(campaign.stacks, "stacks", source, "name each stack once; variants go into matrix")
    for drafter, plain in (campaign.parity.plain if campaign.parity else {}).items():
        for name in (drafter, plain):
            if name not in campaign.stacks:
                raise _bad(
                    source, "parity.plain", f"{name} is none of the campaign's stacks", "add it to stacks"
                )
    return campaign


def _refuse_twice(names: Sequence[str], field: str, source: str, remedy: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise _bad(source, field, f"{name} stands twice", remedy)


def _bad(source: str, field: str, problem: str, remedy: str) -> KitError:
    return KitError(
        "bad-campaign", f"{source}: {field}: {problem}", remedy=f"{remedy} in {source}", exit_code=Exit.USAGE
    )


def campaign_digest(campaign: Campaign, *, rehearse: bool) -> str:
    """Twelve hex digits of all that decides what is measured; budget, gates and failure policy may change midway."""
    fixed = msgspec.structs.replace(
        campaign, summary="", budget=Budget(), gates=Gates(), failure=FailurePolicy(), rehearse=rehearse
    )
    return hashlib.sha256(msgspec.json.encode(fixed, order="sorted")).hexdigest()[:12]


def campaign_schema() -> dict[str, Any]:
    """The JSON Schema of a campaign file, for editors."""
    return msgspec.json.schema(Campaign)
