"""In which state is a stack, and what changed? Pure: observations in, state and changes out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from kitctl.kit.failures import FailureBook
from kitctl.watch.engine_log import LoadProgress, Phase, advance
from kitctl.watch.start import LAST_WORDS_S

FAILED_PROBES = 2
"""One failed health request may be a busy moment; two in a row are a state."""


class StackState(StrEnum):
    """``failing``: a fatal line was logged, the process still lives (a killed rank keeps the port open for
    seconds to a minute, measured on SGLang 0.5.16). ``unwell``: it lives and does not answer. ``degraded``: it
    answers, and cannot reach its GPUs any more. ``unreachable``: the container engine does not answer, so that
    nothing is known."""

    ABSENT = "absent"
    LOADING = "loading"
    READY = "ready"
    DEGRADED = "degraded"
    UNWELL = "unwell"
    FAILING = "failing"
    CRASHED = "crashed"
    STOPPED = "stopped"
    UNREACHABLE = "unreachable"


DEAD = frozenset({StackState.ABSENT, StackState.CRASHED, StackState.STOPPED})


@dataclass(frozen=True, kw_only=True)
class Watched:
    """All that was seen of one container. ``healthy`` is ``None`` before the first probe."""

    progress: LoadProgress = field(default_factory=LoadProgress)
    healthy: bool | None = None
    failed_probes: int = 0
    was_ready: bool = False
    told_to_stop: bool = False
    ended: bool = False
    exit_code: int | None = None
    line_s: float = 0.0
    gpu_failure: str | None = None


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change of state and why."""

    before: StackState
    after: StackState
    why: str


def saw_line(seen: Watched, line: str, *, book: FailureBook, at_s: float) -> Watched:
    """After one more log line."""
    return replace(
        seen,
        line_s=at_s,
        progress=advance(seen.progress, line, fatal=book.fatal, at_s=at_s),
        told_to_stop=seen.told_to_stop or book.stopping.search(line) is not None,
    )


def saw_probe(seen: Watched, *, healthy: bool) -> Watched:
    """After one health request."""
    return replace(
        seen,
        healthy=healthy,
        failed_probes=0 if healthy else seen.failed_probes + 1,
        was_ready=seen.was_ready or healthy,
    )


def saw_gpus(seen: Watched, failure: str | None) -> Watched:
    """After a look at the GPUs from inside the container."""
    return replace(seen, gpu_failure=failure)


def saw_end(seen: Watched, exit_code: int | None, *, told_to_stop: bool = False) -> Watched:
    """After the main process ended; ``told_to_stop``: the container engine asked it to."""
    return replace(seen, ended=True, exit_code=exit_code, told_to_stop=seen.told_to_stop or told_to_stop)


def judge_state(seen: Watched) -> StackState:
    """The state that the observations add up to."""
    if seen.ended:
        return StackState.STOPPED if seen.told_to_stop else StackState.CRASHED
    if seen.progress.first_fatal is not None and not seen.told_to_stop:
        return StackState.FAILING
    if seen.gpu_failure is not None and seen.failed_probes < FAILED_PROBES:
        return StackState.DEGRADED
    if seen.healthy:
        return StackState.READY
    if seen.was_ready and seen.failed_probes >= FAILED_PROBES:
        return StackState.UNWELL
    return StackState.READY if seen.was_ready else StackState.LOADING


def change_between(before: StackState, seen: Watched, *, now_s: float) -> Change | None:
    """The change of state, if there is one.

    ``failing`` is told only when the process has paused in its last words, since they name the cause; ``loading`` only
    after the first health request, since the log that is read first may be an old one.
    """
    after = judge_state(seen)
    is_talking = after is StackState.FAILING and now_s - seen.line_s < LAST_WORDS_S
    is_unasked = after is StackState.LOADING and seen.healthy is None
    if after is before or is_talking or is_unasked:
        return None
    return Change(before=before, after=after, why=_why(after, seen))


def _why(state: StackState, seen: Watched) -> str:
    fatal = seen.progress.first_fatal
    if state is StackState.FAILING and fatal is not None:
        return f"{fatal.rank + ': ' if fatal.rank else ''}{fatal.text}"
    if state in DEAD:
        return "told to stop" if seen.told_to_stop else f"ended with exit code {seen.exit_code}"
    if state is StackState.DEGRADED:
        return f"the container cannot reach its GPUs: {seen.gpu_failure}"
    if state is StackState.UNWELL:
        return f"{seen.failed_probes} health requests in a row got no answer"
    if state is StackState.LOADING:
        return f"phase {seen.progress.phase.value}"
    return "answers" if seen.progress.phase is Phase.READY or seen.healthy else "was ready"
