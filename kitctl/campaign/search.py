"""A bounded search over one stack's settings: which values, what is aimed at, what did each trial bring?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from kitctl.bench.failed import too_many_failed
from kitctl.bench.measure import Repeat
from kitctl.bench.points import Goal, point_of
from kitctl.bench.statistics import mean
from kitctl.campaign.events import Asked, Entry, Judged, Reason
from kitctl.campaign.schedule import Kind, Work
from kitctl.campaign.state import State
from kitctl.errors import Exit, KitError
from kitctl.kit.campaign import CampaignLoad, Scalar
from kitctl.kit.layers import value_at
from kitctl.kit.settings import read_setting
from kitctl.kit.stack import Graphs, Stack
from kitctl.kit.yaml_reader import read_yaml

LOAD = "target"
Space = dict[str, tuple[Scalar, ...]]
Settings = tuple[tuple[str, Scalar], ...]


class Aim(StrEnum):
    """What is made best: output tokens a second, mean time to first token, or requests a second within the goal."""

    THROUGHPUT = "throughput"
    TTFT = "ttft"
    GOODPUT = "goodput"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The aim at one concurrency; ``goal`` for goodput."""

    aim: Aim
    concurrency: int
    goal: Goal | None = None

    @property
    def more_is_better(self) -> bool:
        """Whether a larger value wins."""
        return self.aim is not Aim.TTFT

    @property
    def unit(self) -> str:
        """What a value counts."""
        units = {
            Aim.THROUGHPUT: "output tokens/s",
            Aim.TTFT: "ms to the first token",
            Aim.GOODPUT: "good req/s",
        }
        return units[self.aim]


class Needs(StrEnum):
    """When a setting may be varied at all."""

    DRAFTER = "drafter"
    GPUS = "gpus"
    MANY_GPUS = "many_gpus"
    GRAPHS = "graphs"


class Candidate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One setting of the kit's space."""

    path: str
    values: tuple[Scalar, ...]
    needs: Needs | None = None


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One arm of the search. ``outcome`` ``None``: begun and not ended."""

    number: int
    settings: Settings
    outcome: str | None = None
    value: float | None = None
    values: tuple[float, ...] = ()
    reason: Reason | None = None


def read_candidates(text: str) -> tuple[Candidate, ...]:
    """The kit's own space."""
    tree = read_yaml(f"space:\n{text}", source="tune_space.yaml")
    return msgspec.convert(tree["space"], tuple[Candidate, ...])


def default_space(stack: Stack, candidates: Iterable[Candidate], *, on_gpus: bool) -> Space:
    """The candidates that mean something for the stack, each with the stack's own value among them."""
    tree = msgspec.to_builtins(stack)
    space: Space = {}
    for found in candidates:
        if not _applies(found.needs, stack, on_gpus=on_gpus):
            continue
        own = value_at(tree, found.path)
        values = {*found.values, own} if own is not None else set(found.values)
        space[found.path] = tuple(sorted(values, key=lambda value: (isinstance(value, str), value)))
    return space


def _applies(needs: Needs | None, stack: Stack, *, on_gpus: bool) -> bool:
    match needs:
        case None:
            return True
        case Needs.DRAFTER:
            return stack.drafter is not None and on_gpus
        case Needs.GPUS:
            return on_gpus
        case Needs.MANY_GPUS:
            return on_gpus and stack.gpu_count > 1
        case Needs.GRAPHS:
            return on_gpus and stack.engine.graphs is not Graphs.OFF


def read_vary(words: Sequence[str]) -> Space:
    """``engine.chunked_prefill_size=2048,4096`` as a space. Raises KitError ``bad-setting`` (exit 2)."""
    space: Space = {}
    for word in words:
        path, _, values = word.partition("=")
        read = tuple(read_setting(f"{path}={value}")[1] for value in values.split(","))
        if len(read) < 2 or any(not isinstance(value, str | int | float | bool) for value in read):
            raise KitError(
                "bad-setting",
                f"--vary {word}: it must name a setting and at least two values",
                remedy="write for example --vary engine.chunked_prefill_size=2048,4096,8192",
                exit_code=Exit.USAGE,
            )
        space[path] = read
    return space


def own_settings(stack: Stack, space: Space) -> Settings:
    """Where the search begins: the stack's own values; where it has none, or another, the space's first."""
    tree = msgspec.to_builtins(stack)
    own = ((path, value_at(tree, path)) for path in space)
    return tuple((path, value if value in space[path] else space[path][0]) for path, value in own)


def search_digest(
    stack: Stack, target: Target, space: Space, *, load: CampaignLoad, repeats: int, rehearse: bool
) -> str:
    """Twelve hex digits of all that decides what a trial means."""
    parts = [stack, target, space, load, repeats, rehearse]
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()[:12]


def trials_of(entries: Iterable[Entry]) -> tuple[Trial, ...]:
    """Every trial that was begun, as the journal tells it."""
    found: dict[int, Trial] = {}
    for entry in entries:
        event = entry.event
        if isinstance(event, Asked):
            found[event.trial] = Trial(number=event.trial, settings=event.settings)
        if isinstance(event, Judged):
            found[event.trial] = Trial(
                number=event.trial,
                settings=found[event.trial].settings,
                outcome=event.outcome,
                value=event.value,
                values=event.values,
                reason=event.reason,
            )
    return tuple(found.values())


def trial_works(number: int, target: Target, repeats: int) -> tuple[Work, ...]:
    """A trial's repeats, each a chance to stop early."""
    return tuple(
        Work(arm=arm_name(number), kind=Kind.BENCH, load=LOAD, concurrency=target.concurrency, repeat=repeat)
        for repeat in range(repeats)
    )


def arm_name(number: int) -> str:
    """``trial-3``."""
    return f"trial-{number}"


def why_no_value(repeat: Repeat, target: Target) -> str | None:
    """Why a repeat says nothing of the target; ``None`` when it does."""
    failed = too_many_failed(repeat.error_kinds, repeat.requests)
    if failed is not None:
        return failed
    return None if value_of(repeat, target) is not None else f"it tells no {target.unit}"


def value_of(repeat: Repeat, target: Target) -> float | None:
    """What one repeat brings towards the target; ``None`` when it says nothing of it, or too many requests failed."""
    if too_many_failed(repeat.error_kinds, repeat.requests) is not None:
        return None
    point = point_of([repeat], model="", served=None, is_chat=False, goal=target.goal)
    match target.aim:
        case Aim.THROUGHPUT:
            return point.output_tokens_per_s
        case Aim.TTFT:
            return point.ttft_ms.mean if point.ttft_ms else None
        case Aim.GOODPUT:
            return point.goodput_requests_per_s


def why_failed(works: Iterable[Work], state: State, target: Target) -> Reason | None:
    """Why a trial has no value: it became a hole, or a repeat of it says nothing of the target."""
    keys = [work.key for work in works]
    hole = next((state.holes[key] for key in keys if key in state.holes), None)
    if hole is not None:
        return hole
    repeats = [state.done[key].repeat for key in keys if key in state.done]
    told = (why_no_value(repeat, target) for repeat in repeats if repeat is not None)
    why = next((one for one in told if one is not None), None)
    if why is None:
        return None
    return Reason(
        code="trial-without-value",
        cause=f"a repeat cannot be judged: {why}",
        remedy="see the engine's log of that run: kitctl runs list, then kitctl runs show RUN",
    )


def best_of(trials: Iterable[Trial], target: Target) -> Trial | None:
    """The best complete trial."""
    complete = [trial for trial in trials if trial.outcome == "complete" and trial.value is not None]
    sign = 1.0 if target.more_is_better else -1.0
    return max(complete, key=lambda trial: sign * (trial.value or 0.0), default=None)


def judged(number: int, values: Sequence[float], *, wanted: int, reason: Reason | None) -> Judged:
    """How a trial ended, from the values of its repeats."""
    outcome = "failed" if reason is not None else "complete" if len(values) >= wanted else "stopped"
    value = mean(values) if values else None
    return Judged(trial=number, outcome=outcome, value=value, values=tuple(values), reason=reason)


def trial_lines(trials: Iterable[Trial], target: Target, own: Mapping[str, Scalar]) -> list[str]:
    """The trials, best first; settings as in the first trial are left out."""
    sign = -1.0 if target.more_is_better else 1.0
    rank = {"complete": 0, "stopped": 1, "failed": 2}
    ordered = sorted(trials, key=lambda t: (rank.get(t.outcome or "", 3), sign * (t.value or 0.0)))
    lines = []
    for trial in ordered:
        changed = [f"{path}={value}" for path, value in trial.settings if own.get(path) != value]
        words = " ".join(changed) or "where the search began"
        value = f"{trial.value:.1f} {target.unit}" if trial.value is not None else "no value"
        why = f": {trial.reason.cause} ({trial.reason.code})" if trial.reason else ""
        early = f" after {len(trial.values)} repeats" if trial.outcome == "stopped" else ""
        lines.append(f"trial {trial.number}: {value}, {trial.outcome}{early}: {words}{why}")
    return lines
