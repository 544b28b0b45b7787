"""Watch one container: its log lines and its end, as they happen, in one stream of events.

``at_s`` of an event is the second at which it was seen, by a clock that never steps.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from kitctl.edge.clock import monotonic_s
from kitctl.edge.container_log import followed_lines
from kitctl.edge.docker_engine import container_state, engine_clock_s, wait_for_exit
from kitctl.errors import KitError
from kitctl.watch.log_clock import LogClock, place_line
from kitctl.watch.progress import Sample

_TICK_S = 0.25
_LAST_WORDS_S = 0.7
LOOK_EVERY_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Line:
    """One log line, and when it was written: before ``at_s`` for one that was there when the watch began."""

    text: str
    at_s: float
    logged_s: float


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The container's main process ended; ``None`` when the container is gone altogether."""

    exit_code: int | None
    at_s: float


@dataclass(frozen=True, kw_only=True)
class Tick:
    """Nothing happened for a quarter of a second."""

    at_s: float


@dataclass(frozen=True, kw_only=True)
class Probed:
    """What the probe said; it runs beside the log, so that a stuck server delays nothing else."""

    healthy: bool
    at_s: float


@dataclass(frozen=True, kw_only=True)
class Lost:
    """The engine went away, so that the end of the container cannot be seen any more."""

    error: KitError


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What a look at the container showed; it runs beside the log too."""

    sample: Sample
    at_s: float


Event = Line | Ended | Tick | Probed | Looked


def watch_container(
    container_id: str,
    *,
    probe: Callable[[], bool] | None = None,
    every_s: float = 5.0,
    look: Callable[[], Sample | None] | None = None,
    look_every_s: float = LOOK_EVERY_S,
) -> Iterator[Event]:
    """Events of the container from its latest start until it ends; the last event is ``Ended``.

    Lines written just before the end come before it. ``probe`` is asked again ``every_s`` after it answered, and
    ``look`` ``look_every_s``. Raises KitError ``engine-unreachable`` (exit 10).
    """
    events: queue.Queue[Event | Lost] = queue.Queue()
    if probe is not None:
        threading.Thread(target=_ask, args=(probe, every_s, events), daemon=True).start()
    if look is not None:
        threading.Thread(target=_look, args=(look, look_every_s, events), daemon=True).start()
    follower = _spawn(_follow, container_id, events)
    _spawn(_await_end, container_id, events)
    while True:
        try:
            event = events.get(timeout=_TICK_S)
        except queue.Empty:
            yield Tick(at_s=monotonic_s())
            continue
        if isinstance(event, Lost):
            raise event.error
        if isinstance(event, Ended):
            follower.join(timeout=_LAST_WORDS_S)
            yield from _drain(events)
            yield event
            return
        yield event


def _spawn(
    work: Callable[[str, queue.Queue[Event | Lost]], None],
    container_id: str,
    events: queue.Queue[Event | Lost],
) -> threading.Thread:
    thread = threading.Thread(target=work, args=(container_id, events), daemon=True)
    thread.start()
    return thread


def _follow(container_id: str, events: queue.Queue[Event | Lost]) -> None:
    with suppress(KitError):
        state = container_state(container_id)
        clock = LogClock(engine_s=engine_clock_s(), own_s=monotonic_s())
        for text, stamp_s in followed_lines(container_id, life=state.started_at if state else None):
            at_s = monotonic_s()
            clock = place_line(clock, stamp_s, at_s=at_s)
            events.put(Line(text=text, at_s=at_s, logged_s=clock.logged_s))


def _await_end(container_id: str, events: queue.Queue[Event | Lost]) -> None:
    try:
        code = wait_for_exit(container_id)
    except KitError as lost:
        events.put(Lost(error=lost))
        return
    events.put(Ended(exit_code=code, at_s=monotonic_s()))


def _ask(probe: Callable[[], bool], every_s: float, events: queue.Queue[Event | Lost]) -> None:
    while True:
        events.put(Probed(healthy=probe(), at_s=monotonic_s()))
        time.sleep(every_s)


def _look(look: Callable[[], Sample | None], every_s: float, events: queue.Queue[Event | Lost]) -> None:
    while True:
        with suppress(KitError):
            sample = look()
            if sample is not None:
                events.put(Looked(sample=sample, at_s=sample.at_s))
        time.sleep(every_s)


def _drain(events: queue.Queue[Event | Lost]) -> Iterator[Event]:
    while True:
        try:
            event = events.get_nowait()
        except queue.Empty:
            return
        if isinstance(event, Line):
            yield event
