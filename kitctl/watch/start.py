"""How does a start go? Pure: events of the container in, what to tell and when to stop out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kitctl.kit.failures import FailureBook
from kitctl.watch.engine_log import LoadProgress, Phase, advance, phase_durations
from kitctl.watch.progress import STALLED_S, Motion, Pulse, Sample, estimate, feel, judge_motion, motion_text

IMPORTS = "imports"
"""What is shown for the time before the engine's first word: Python loads torch and the engine's modules."""
LAST_WORDS_S = 0.5
"""After a fatal line the traceback and the other ranks' words follow within this pause; then the verdict stands."""
MOST_LAST_WORDS_S = 2.0
"""Ranks that repeat themselves do not put the verdict off for longer."""


class Verdict(StrEnum):
    """What the watcher should do next."""

    WAIT = "wait"
    ASK = "ask"
    CRASHED = "crashed"
    STALLED = "stalled"
    TOO_LATE = "too-late"


@dataclass(frozen=True, kw_only=True)
class Yardstick:
    """What a load is measured against: the bytes of its weights, and seconds by phase of the last load here."""

    weight_bytes: int | None = None
    last_load: Mapping[str, float] | None = None


@dataclass(frozen=True, kw_only=True)
class StartState:
    """A start as seen so far. Times are seconds of one clock that never steps.

    After ``stalled_s`` without motion it is given up.
    """

    begun_s: float
    deadline_s: float
    stalled_s: float = STALLED_S
    yardstick: Yardstick = field(default_factory=Yardstick)
    progress: LoadProgress = field(default_factory=LoadProgress)
    pulse: Pulse | None = None
    motion: Motion = Motion.MOVING
    fatal_s: float | None = None
    line_s: float | None = None
    exit_code: int | None = None
    has_ended: bool = False
    gpu_failure: str | None = None
    told: tuple[str, ...] = ()


def see_line(
    state: StartState, line: str, *, at_s: float, book: FailureBook, logged_s: float | None = None
) -> StartState:
    """The state after one more log line, seen at ``at_s``; ``told`` holds what a person should now hear.

    ``logged_s``: when it was written, where that was earlier: phases are timed by it, verdicts by ``at_s``.
    """
    logged_s = at_s if logged_s is None else logged_s
    progress = advance(state.progress, line, fatal=book.fatal, at_s=logged_s)
    fatal_s = state.fatal_s
    if fatal_s is None and progress.first_fatal is not None:
        fatal_s = at_s
    told = _news(state, progress, logged_s=logged_s, at_s=at_s)
    return replace(state, progress=progress, fatal_s=fatal_s, line_s=at_s, told=told)


def see_sample(state: StartState, sample: Sample) -> StartState:
    """The state after a look at the container's bytes, memory and programs; a change of motion is told."""
    sample = replace(sample, messages=state.progress.messages)
    pulse = feel(state.pulse or Pulse(begun_s=state.begun_s, line_s=sample.at_s), sample)
    motion = judge_motion(pulse, now_s=sample.at_s, stalled_s=state.stalled_s)
    told = () if motion is state.motion else (f"{motion.value}: {motion_text(pulse, now_s=sample.at_s)}",)
    if sample.gpu_failure is not None and sample.gpu_failure != state.gpu_failure:
        told = (*told, f"the container cannot reach its GPUs: {sample.gpu_failure}")
    return replace(state, pulse=pulse, motion=motion, told=told, gpu_failure=sample.gpu_failure)


def see_end(state: StartState, exit_code: int | None) -> StartState:
    """The state after the container's main process ended."""
    return replace(state, exit_code=exit_code, has_ended=True, told=())


def judge_start(state: StartState, *, now_s: float) -> Verdict:
    """Whether to go on waiting, to ask the server, or to give up, and why."""
    if state.has_ended:
        return Verdict.CRASHED
    if state.fatal_s is not None and state.line_s is not None:
        quiet = now_s - state.line_s > LAST_WORDS_S
        return Verdict.CRASHED if quiet or now_s - state.fatal_s > MOST_LAST_WORDS_S else Verdict.WAIT
    if now_s > state.deadline_s:
        return Verdict.TOO_LATE
    if state.progress.phase in (Phase.WARM_UP, Phase.READY):
        return Verdict.ASK
    return Verdict.STALLED if state.motion is Motion.STALLED else Verdict.WAIT


def verdict_words(state: StartState, verdict: Verdict, *, now_s: float) -> str:
    """Why the start was given up, for a person."""
    if verdict is Verdict.STALLED and state.pulse is not None:
        return f"stalled in phase {state.progress.phase}: {motion_text(state.pulse, now_s=now_s)}"
    if verdict is Verdict.TOO_LATE:
        waited_s = max(0.0, state.deadline_s - state.begun_s)
        return f"not ready within {waited_s:.0f} s; it stands in phase {state.progress.phase}"
    if state.has_ended:
        return f"ended with exit code {state.exit_code}"
    return "a fatal line was logged"


def phase_lines(state: StartState, *, now_s: float) -> list[tuple[str, float]]:
    """Phase and seconds of each phase of the engine so far, in order; first what it said nothing of."""
    silent_s = _silent_s(state, state.progress)
    silence = [(IMPORTS, round(silent_s, 2))] if silent_s is not None else []
    durations = phase_durations(state.progress, now_s=now_s)
    return [*silence, *((phase.value, round(seconds, 2)) for phase, seconds in durations.items())]


def _silent_s(state: StartState, progress: LoadProgress) -> float | None:
    """Seconds from the container's start to the engine's first phase; ``None`` where its start was not seen."""
    first_s = progress.transitions[0][1] if progress.transitions else None
    return first_s - state.begun_s if first_s is not None and first_s > state.begun_s else None


def _news(state: StartState, after: LoadProgress, *, logged_s: float, at_s: float) -> tuple[str, ...]:
    before = state.progress
    news = []
    if after.phase is not before.phase:
        waited = before.phase is Phase.WAITING
        ended = (
            _silent_s(state, after) if waited else phase_durations(after, now_s=logged_s).get(before.phase)
        )
        if ended is not None:
            news.append(f"{IMPORTS if waited else before.phase.value}: {ended:.1f} s")
        news.append(f"{after.phase.value} ...{_left(state, after, logged_s=logged_s, at_s=at_s)}")
    if after.shards is not None and after.shards != before.shards:
        left = _left(state, after, logged_s=logged_s, at_s=at_s)
        news.append(f"weights: shard {after.shards.done} of {after.shards.total}{left}")
    news += _rank_news(before, after)
    if after.first_fatal is not None and before.first_fatal is None:
        news.append(f"fatal: {after.first_fatal.text}")
    return tuple(news)


def _rank_news(before: LoadProgress, after: LoadProgress) -> list[str]:
    """A rank whose weights are in, where there are several: who, how long it took, how many are done."""
    if after.loads == before.loads:
        return []
    kind = [load for load in after.loads if load.is_drafter is after.loads[-1].is_drafter]
    done = [load for load in kind if load.elapsed_s is not None]
    ended = [load for load in done if load not in before.loads]
    what = "drafter" if after.loads[-1].is_drafter else "weights"
    return [
        f"{what}: {load.rank} after {load.elapsed_s:.1f} s ({len(done)} of {len(kind)} ranks)"
        for load in ended
        if load.rank is not None and len(kind) > 1
    ]


def _left(state: StartState, progress: LoadProgress, *, logged_s: float, at_s: float) -> str:
    """Rate, and the time left of what was so when the line was written, as far as they are known."""
    guess = estimate(
        progress,
        now_s=logged_s,
        weight_bytes=state.yardstick.weight_bytes,
        last_load=state.yardstick.last_load,
    )
    rate = f", {guess.bytes_per_s / 1e9:.2f} GB/s" if guess.bytes_per_s else ""
    left_s = (guess.left_s or 0.0) - (at_s - logged_s)
    left = f", about {left_s:.0f} s left by {guess.by}" if left_s >= 1 else ""
    return rate + left
