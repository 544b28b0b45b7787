"""Watch one container: its log lines and its end, as they happen, in one stream of events."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kitctl.edge.docker_engine import log_lines, wait_for_exit

_TICK_S = 0.25
_LAST_WORDS_S = 0.7


@dataclass(frozen=True, kw_only=True)
class Line:
    """One log line; ``at_s`` is the wall clock (epoch seconds) when it was read."""

    text: str
    at_s: float


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The container's main process ended; ``None`` when the container is gone altogether."""

    exit_code: int | None
    at_s: float


@dataclass(frozen=True, kw_only=True)
class Tick:
    """Nothing happened for a quarter of a second."""

    at_s: float


Event = Line | Ended | Tick


def watch_container(container_id: str) -> Iterator[Event]:
    """Events of the container from its start until it ends; the last event is ``Ended``.

    Lines written just before the end come before it.
    """
    events: queue.Queue[Event] = queue.Queue()
    follower = _spawn(_follow, container_id, events)
    _spawn(_await_end, container_id, events)
    while True:
        try:
            event = events.get(timeout=_TICK_S)
        except queue.Empty:
            yield Tick(at_s=time.time())
            continue
        if isinstance(event, Ended):
            follower.join(timeout=_LAST_WORDS_S)
            yield from _drain(events)
            yield event
            return
        yield event


def _spawn(
    work: Callable[[str, queue.Queue[Event]], None], container_id: str, events: queue.Queue[Event]
) -> threading.Thread:
    thread = threading.Thread(target=work, args=(container_id, events), daemon=True)
    thread.start()
    return thread


def _follow(container_id: str, events: queue.Queue[Event]) -> None:
    for text in log_lines(container_id, follow=True):
        events.put(Line(text=text, at_s=time.time()))


def _await_end(container_id: str, events: queue.Queue[Event]) -> None:
    code = wait_for_exit(container_id)
    events.put(Ended(exit_code=code, at_s=time.time()))


def _drain(events: queue.Queue[Event]) -> Iterator[Event]:
    while True:
        try:
            event = events.get_nowait()
        except queue.Empty:
            return
        if isinstance(event, Line):
            yield event
