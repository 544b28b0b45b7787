"""How does a start go? Pure: events of the container in, what to tell and when to stop out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from kitctl.kit.failures import FailureBook
from kitctl.watch.engine_log import LoadProgress, Phase, advance, phase_durations

FATAL_GRACE_S = 8.0


class Verdict(StrEnum):
    """What the watcher should do next."""

    WAIT = "wait"
    ASK = "ask"
    CRASHED = "crashed"
    TOO_LATE = "too-late"


@dataclass(frozen=True, kw_only=True)
class StartState:
    """A start as seen so far. Times are epoch seconds."""

    begun_s: float
    deadline_s: float
    progress: LoadProgress = field(default_factory=LoadProgress)
    fatal_s: float | None = None
    exit_code: int | None = None
    has_ended: bool = False
    told: tuple[str, ...] = ()


def see_line(state: StartState, line: str, *, at_s: float, book: FailureBook) -> StartState:
    """The state after one more log line; ``told`` holds what a person should now hear."""
    progress = advance(state.progress, line, fatal=book.fatal, at_s=at_s)
    fatal_s = state.fatal_s
    if fatal_s is None and progress.first_fatal is not None:
        fatal_s = at_s
    told = _news(state.progress, progress, at_s=at_s)
    return replace(state, progress=progress, fatal_s=fatal_s, told=told)


def see_end(state: StartState, exit_code: int | None) -> StartState:
    """The state after the container's main process ended."""
    return replace(state, exit_code=exit_code, has_ended=True, told=())


def judge_start(state: StartState, *, now_s: float) -> Verdict:
    """Whether to go on waiting, to ask the server, or to give up.

    A fatal line gives the process ``FATAL_GRACE_S`` to die by itself, so that its last words are kept.
    """
    if state.has_ended:
        return Verdict.CRASHED
    if state.fatal_s is not None and now_s - state.fatal_s > FATAL_GRACE_S:
        return Verdict.CRASHED
    if now_s > state.deadline_s:
        return Verdict.TOO_LATE
    return Verdict.ASK if state.progress.phase in (Phase.WARM_UP, Phase.READY) else Verdict.WAIT


def phase_lines(state: StartState, *, now_s: float) -> list[tuple[str, float]]:
    """Phase and seconds of each phase of the engine so far, in order."""
    durations = phase_durations(state.progress, now_s=now_s)
    return [(phase.value, round(seconds, 2)) for phase, seconds in durations.items()]


def _news(before: LoadProgress, after: LoadProgress, *, at_s: float) -> tuple[str, ...]:
    news = []
    if after.phase is not before.phase:
        durations = phase_durations(after, now_s=at_s)
        ended = durations.get(before.phase)
        if ended is not None:
            news.append(f"{before.phase.value}: {ended:.1f} s")
        news.append(f"{after.phase.value} ...")
    if after.shards is not None and after.shards != before.shards:
        news.append(f"weights: shard {after.shards.done} of {after.shards.total}")
    if after.first_fatal is not None and before.first_fatal is None:
        news.append(f"fatal: {after.first_fatal.text}")
    return tuple(news)
