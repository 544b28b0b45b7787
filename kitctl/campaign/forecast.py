"""How long will it take? From what this journal measured, this host's earlier loads, the plans, and published rates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from kitctl.bench.results import ResultFile
from kitctl.bench.workload import LEAST_REQUESTS
from kitctl.campaign.schedule import Kind, Visit, Work
from kitctl.campaign.state import State
from kitctl.kit.campaign import Campaign, CampaignLoad
from kitctl.watch.progress import FIRST_START_S

SLOWEST_STEP_TOKENS_PER_S = 20.0
"""One stream without a published rate: about the slowest of the reference table (tp8-eager, C=1)."""
PROMPT_ANSWER_TOKENS = 256


@dataclass(frozen=True, kw_only=True)
class LoadTime:
    """How long a load takes and from what that is known."""

    seconds: float
    by: str


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Seconds for all that is open, and from what they are known: ``loads`` by arm id, ``guessed`` works by key."""

    seconds: float
    loads: Mapping[str, LoadTime] = field(default_factory=dict)
    guessed: int = 0


BY_PLAN = "the plan's estimate"
BY_GUESS = "a guess, for nothing like it was started here yet"


def load_time(*, expected_s: float | None, last_s: float | None) -> LoadTime:
    """Seconds from start to answer, before anything ran: as the last run on this host, or as the plan expects.

    Where neither says anything: what a first start may take with all its compiling.
    """
    if last_s is not None:
        return LoadTime(seconds=last_s, by="the last load on this host")
    if expected_s is not None:
        return LoadTime(seconds=expected_s, by=BY_PLAN)
    return LoadTime(seconds=FIRST_START_S, by=BY_GUESS)


def load_time_now(before: LoadTime, *, state: State, arm: str) -> LoadTime:
    """The same in the light of this campaign's own loads: the arm's, or any arm's where no start spoke yet."""
    mine = [up.seconds for up in state.ups.get(arm, ()) if up.outcome == "ready"]
    if mine:
        return LoadTime(seconds=median(mine), by="this campaign")
    others = [up.seconds for ups in state.ups.values() for up in ups if up.outcome == "ready"]
    if others and before.by in (BY_PLAN, BY_GUESS):
        return LoadTime(seconds=median(others), by="other stacks of this campaign")
    return before


def forecast(
    visits: Iterable[Visit],
    *,
    campaign: Campaign,
    state: State,
    loads: Mapping[str, LoadTime],
    published: Sequence[ResultFile] = (),
) -> Forecast:
    """What is open, in seconds. A work without any like it measured or published is guessed from the slowest rate."""
    total, guessed = 0.0, 0
    measured = _measured(state)
    for visit in visits:
        total += loads[visit.arm.id].seconds
        for work in visit.works:
            seconds = measured.get((work.arm, *_like(work))) or measured.get(("", *_like(work)))
            if seconds is None:
                seconds, known = work_seconds(work, campaign, stack=visit.arm.stack, published=published)
                guessed += not known
            total += seconds
    return Forecast(seconds=total, loads=loads, guessed=guessed)


def _like(work: Work) -> tuple[str, str | None, int | None]:
    return str(work.kind), work.load, work.concurrency


def _measured(state: State) -> dict[tuple[str, str, str | None, int | None], float]:
    """Median seconds of works by arm and kind, and over all arms under the arm ``""``."""
    found: dict[tuple[str, str, str | None, int | None], list[float]] = {}
    for done in state.done.values():
        kind, load, concurrency = read_key(done.work, done.arm)
        for arm in (done.arm, ""):
            found.setdefault((arm, kind, load, concurrency), []).append(done.seconds)
    return {key: median(values) for key, values in found.items()}


def read_key(key: str, arm: str) -> tuple[str, str | None, int | None]:
    """Kind, load and concurrency of a work's key."""
    kind, _, rest = key.removeprefix(f"{arm} ").partition(" ")
    words = rest.split(" ")
    concurrency = next((int(word[2:]) for word in words if word.startswith("C=")), None)
    load = rest.partition(" C=")[0] if kind == Kind.BENCH else None
    return kind, load or None, concurrency


def work_seconds(
    work: Work, campaign: Campaign, *, stack: str, published: Sequence[ResultFile]
) -> tuple[float, bool]:
    """Seconds of one work, and whether a published rate stands behind them."""
    load = next((load for load in campaign.loads if load.title == work.load), None)
    if work.kind is not Kind.BENCH or load is None:
        prompts = _prompts(campaign, work)
        return prompts * PROMPT_ANSWER_TOKENS / (SLOWEST_STEP_TOKENS_PER_S * (work.concurrency or 1)), False
    tokens = _tokens(load, work.concurrency or 1)
    rate = _published_rate(published, stack, work.concurrency or 1)
    if rate is not None:
        return tokens / rate, True
    return tokens / (SLOWEST_STEP_TOKENS_PER_S * (work.concurrency or 1)), False


def _tokens(load: CampaignLoad, concurrency: int) -> float:
    """Output tokens of one repeat; answers that may end early are taken to use half of what they may."""
    requests = max(LEAST_REQUESTS, concurrency * load.requests_per_stream)
    wanted = load.output_tokens or (128 if load.dataset == "random" else 512)
    return requests * wanted * (1.0 if load.dataset == "random" else 0.5)


def _prompts(campaign: Campaign, work: Work) -> int:
    if work.kind is Kind.ACCEPT:
        return (campaign.accept.prompts if campaign.accept else None) or 48
    return campaign.parity.prompts if campaign.parity else 0


def _published_rate(published: Sequence[ResultFile], stack: str, concurrency: int) -> float | None:
    """The rate at the nearest published concurrency, scaled down to fewer streams, never up."""
    points = [
        (point.concurrency, point.output_tokens_per_s)
        for result in published
        if result.head.label == stack
        for point in result.points
        if point.concurrency is not None and point.output_tokens_per_s
    ]
    if not points:
        return None
    near, rate = min(points, key=lambda pair: abs(pair[0] - concurrency))
    return rate * min(1.0, concurrency / near)


def duration_text(seconds: float) -> str:
    """``45 s``, ``12 min``, ``6 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
