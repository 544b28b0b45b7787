"""Bring a rendered project up and stay with it until it truly answers, crashes, or runs out of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from kitctl.edge.activity import look_at
from kitctl.edge.clock import monotonic_s
from kitctl.edge.container_log import log_lines
from kitctl.edge.container_watch import LOOK_EVERY_S, Ended, Event, Line, Looked, Probed, watch_container
from kitctl.edge.docker_engine import ContainerState, container_state
from kitctl.edge.docker_events import container_events
from kitctl.edge.failure_book import failure_book
from kitctl.edge.runs import LogCopy, read_log
from kitctl.edge.serving import Answer, ask, is_healthy, served_models
from kitctl.kit.failures import FailureBook
from kitctl.watch.ending import EngineEvent
from kitctl.watch.engine_log import Phase, known_capacity
from kitctl.watch.progress import STALLED_S
from kitctl.watch.run_record import PhaseTime
from kitctl.watch.start import (
    StartState,
    Verdict,
    Yardstick,
    judge_start,
    phase_lines,
    see_end,
    see_line,
    see_sample,
    verdict_words,
)

READY_PROMPT = "Does this stack answer?"
READY_TOKENS = 16
PROBE_EVERY_S = 5.0
PROBE_TIMEOUT_S = 3.0


@dataclass(frozen=True, kw_only=True)
class Started:
    """How a start ended. ``answer`` is the proof that the stack answers; without it ``why`` says why not."""

    verdict: Verdict
    phases: tuple[PhaseTime, ...]
    container: ContainerState | None
    answer: Answer | None = None
    log: str = ""
    why: str = ""
    kv_tokens: int | None = None
    phase: Phase = Phase.WAITING
    events: tuple[EngineEvent, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where to look and what to expect: the container, the server, its model and key.

    ``serves`` is false for a rank that answers no client: its health is all that it can show.
    """

    container_id: str
    folder: str
    url: str
    model: str
    prompt: str = READY_PROMPT
    max_tokens: int = READY_TOKENS
    serves: bool = True
    api_key: str | None = None
    gpus: int = 0


def first_answer_tokens(expected: str | None) -> int:
    """Tokens that the first answer may take: no tokenizer needs more for ``expected`` than its bytes and an end."""
    return max(READY_TOKENS, len(expected.encode()) + 1) if expected else READY_TOKENS


def wait_until_ready(
    target: Target,
    *,
    deadline_s: float,
    say: Callable[[str], None],
    yardstick: Yardstick | None = None,
    stalled_s: float = STALLED_S,
) -> Started:
    """Follow the container until it has answered a real generation, died, stalled, or ``deadline_s`` passed.

    A server not asked before the time is over is asked once. ``deadline_s`` is by ``monotonic_s``;
    a stall is one when nothing moved for ``stalled_s``.
    """
    book = failure_book()
    state = StartState(
        begun_s=monotonic_s(),
        deadline_s=deadline_s,
        stalled_s=stalled_s,
        yardstick=yardstick or Yardstick(),
    )
    asked_s, copy = 0.0, LogCopy(target.folder, say)
    events = watch_container(
        target.container_id,
        probe=partial(_listens, target),
        every_s=PROBE_EVERY_S,
        look=partial(look_at, target.container_id, gpus=target.gpus),
        look_every_s=min(LOOK_EVERY_S, stalled_s / 4),
    )
    for event in events:
        state = _see(state, event, copy, book=book)
        for news in state.told:
            say(f"  {news}")
        verdict = judge_start(state, now_s=event.at_s)
        if verdict is Verdict.WAIT and isinstance(event, Probed) and event.healthy:
            verdict = Verdict.ASK
        if verdict is Verdict.TOO_LATE and not asked_s and _listens(target):
            verdict = Verdict.ASK
        if verdict is Verdict.ASK and event.at_s - asked_s > 0.5:
            asked_s = event.at_s
            answer = prove_answer(target, patience_s=PROBE_TIMEOUT_S)
            if answer.failure is None:
                return _ended(Verdict.ASK, state, target, copy, answer=answer)
        if verdict in (Verdict.CRASHED, Verdict.STALLED, Verdict.TOO_LATE):
            return _ended(verdict, state, target, copy)
    return _ended(Verdict.CRASHED, state, target, copy)


def _see(state: StartState, event: Event, copy: LogCopy, *, book: FailureBook) -> StartState:
    """The state after an event; a line is kept in the run's folder first."""
    if isinstance(event, Line):
        copy.append(event.text)
        return see_line(state, event.text, at_s=event.at_s, logged_s=event.logged_s, book=book)
    if isinstance(event, Looked):
        return see_sample(state, event.sample)
    if isinstance(event, Ended):
        return see_end(state, event.exit_code)
    return replace(state, told=())


def _listens(target: Target) -> bool:
    """Whether the server answers already: an engine whose log tells nothing is found ready by this alone."""
    return is_healthy(target.url, api_key=target.api_key, timeout_s=PROBE_TIMEOUT_S)


def prove_answer(target: Target, *, patience_s: float = 25.0) -> Answer:
    """One real generation by the right model, or the reason why there is none yet.

    A foreign server on the port would answer 200 too, and SGLang echoes a wrong model name, so the served
    names are read first.
    """
    if not is_healthy(target.url, api_key=target.api_key, timeout_s=patience_s):
        return Answer(failure="/health_generate does not answer 200")
    if not target.serves:
        return Answer()
    models = served_models(target.url, api_key=target.api_key)
    if models is None or target.model not in models:
        return Answer(failure=f"/v1/models names {models}, not {target.model}")
    answer = ask(
        target.url,
        model=target.model,
        prompt=target.prompt,
        max_tokens=target.max_tokens,
        api_key=target.api_key,
    )
    if answer.failure is None and answer.completion_tokens == 0:
        return replace(answer, failure="the answer holds no token")
    return answer


def _ended(
    verdict: Verdict,
    state: StartState,
    target: Target,
    copy: LogCopy,
    *,
    answer: Answer | None = None,
) -> Started:
    container = container_state(target.container_id)
    log = read_log(target.folder) if copy.is_whole or answer else "\n".join(_lines_of(container))
    phases = tuple(PhaseTime(name=n, seconds=s) for n, s in phase_lines(state, now_s=monotonic_s()))
    return Started(
        verdict=verdict,
        phases=phases,
        container=container,
        answer=answer,
        log="\n".join(filter(None, (log, state.gpu_failure))),
        phase=state.progress.phase,
        events=() if answer else container_events(target.container_id),
        kv_tokens=_kv_tokens(state, container) if answer else None,
        why=verdict_words(state, verdict, now_s=monotonic_s()),
    )


def _kv_tokens(state: StartState, container: ContainerState | None) -> int | None:
    """The tokens that the engine holds; where the answer came before that line, by all that it wrote till now."""
    found = known_capacity(state.progress, _lines_of(container), fatal=failure_book().fatal)
    return found.max_total_tokens if found else None


def _lines_of(container: ContainerState | None) -> Iterator[str]:
    """The engine's log from the container itself, as long as that is there; asked for when the first line is."""
    if container is not None:
        yield from log_lines(container.id, follow=False, life=container.started_at)
