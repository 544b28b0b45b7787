"""What is complete, what is a hole, what is left? The journal's entries folded into one state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from kitctl.campaign.events import (
    Begun,
    Done,
    Down,
    Ended,
    Entry,
    Event,
    Hole,
    Lost,
    Reason,
    Reopened,
    Session,
    Up,
)
from kitctl.campaign.schedule import Visit


@dataclass(frozen=True, kw_only=True)
class State:
    """A campaign as its journal tells it. Works are named by their keys.

    ``ups``: every time an arm answered; ``settings``: what a remedy added to an arm; ``standing``: the arm whose stack
    was up when the journal ends; ``active_s``: time that kitctl worked on it, pauses between sessions left out.
    """

    begun: Begun | None = None
    done: Mapping[str, Done] = field(default_factory=dict)
    holes: Mapping[str, Reason] = field(default_factory=dict)
    losses: Mapping[str, tuple[Reason, ...]] = field(default_factory=dict)
    ups: Mapping[str, tuple[Up, ...]] = field(default_factory=dict)
    downs: Mapping[str, tuple[Down, ...]] = field(default_factory=dict)
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    standing: str | None = None
    ended: str | None = None
    sessions: int = 0
    doubles: tuple[str, ...] = ()
    active_s: float = 0.0
    begun_at: str | None = None
    last_at: str | None = None


def fold(entries: Iterable[Entry]) -> State:
    """The state after all entries."""
    state = State()
    for entry in entries:
        state = step(state, entry)
    return state


def step(state: State, entry: Entry) -> State:
    """The state after one more entry. A work that is done twice counts as it was done first, and is told."""
    state = _timed(state, entry)
    event = entry.event
    match event:
        case Begun():
            return replace(state, begun=event, begun_at=state.begun_at or entry.at)
        case Session():
            return replace(state, sessions=state.sessions + 1, ended=None)
        case Up():
            ups = {**state.ups, event.arm: (*state.ups.get(event.arm, ()), event)}
            settings = {**state.settings, event.arm: event.settings}
            return replace(state, ups=ups, settings=settings, standing=event.arm)
        case Down():
            downs = {**state.downs, event.arm: (*state.downs.get(event.arm, ()), event)}
            return replace(state, downs=downs, standing=None)
        case Ended():
            return replace(state, ended=event.outcome)
        case _:
            return _work_step(state, event)


def reopened(state: State) -> State:
    """The state in which every hole is tried again."""
    return replace(state, holes={}, losses={}, ended=None)


def _work_step(state: State, event: Event) -> State:
    match event:
        case Done():
            if event.work in state.done:
                return replace(state, doubles=(*state.doubles, event.work))
            holes = {work: reason for work, reason in state.holes.items() if work != event.work}
            return replace(state, done={**state.done, event.work: event}, holes=holes)
        case Lost():
            before = state.losses.get(event.work, ())
            return replace(state, losses={**state.losses, event.work: (*before, event.reason)})
        case Hole():
            new = {work: event.reason for work in event.works if work not in state.done}
            return replace(state, holes={**state.holes, **new})
        case Reopened():
            return reopened(state)
        case _:
            return state


def _timed(state: State, entry: Entry) -> State:
    """The gap before a session is a pause; every other gap is work."""
    gap = 0.0
    if state.last_at is not None and not isinstance(entry.event, Session):
        gap = max(0.0, _seconds(entry.at) - _seconds(state.last_at))
    return replace(state, last_at=entry.at, active_s=state.active_s + gap)


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


def open_visits(visits: Iterable[Visit], state: State) -> tuple[Visit, ...]:
    """What a resumed campaign still has to do: visits with the works that are neither done nor holes."""
    left = []
    for visit in visits:
        works = tuple(work for work in visit.works if is_open(work.key, state))
        if works:
            left.append(replace(visit, works=works))
    return tuple(left)


def is_open(key: str, state: State) -> bool:
    """Whether a work is neither done nor a hole."""
    return key not in state.done and key not in state.holes
