"""Follow a stack through all lives of its containers: started, ready, unwell, dead, gone, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from kitctl.commands.projects import gpu_count, running_container
from kitctl.commands.status import recorded_key
from kitctl.commands.watching import Report, report_change, wait_for_container, wait_for_engine
from kitctl.edge.activity import look_at
from kitctl.edge.container_watch import Ended, Line, Looked, Probed, watch_container
from kitctl.edge.docker_engine import ContainerState
from kitctl.edge.docker_events import container_events
from kitctl.edge.failure_book import failure_book
from kitctl.edge.serving import is_healthy
from kitctl.errors import Exit, KitError
from kitctl.render.compose import LABEL
from kitctl.watch.ending import was_told_to_stop
from kitctl.watch.state import (
    Change,
    StackState,
    Watched,
    change_between,
    saw_end,
    saw_gpus,
    saw_line,
    saw_probe,
)


def follow_stack(report: Report) -> Iterator[str]:
    """Each change of state, reported; without end, or until the stack is dead or gone with ``report.once``.

    A container engine that goes away is reported and waited for.
    """
    seat = _Seat()
    while True:
        try:
            for change, container in _changes(report, seat):
                seat.state = change.after
                yield report_change(report, change, container)
            return
        except KitError as lost:
            if lost.exit_code is not Exit.UNREACHABLE:
                raise
            change = Change(before=seat.state, after=StackState.UNREACHABLE, why=lost.cause)
            seat.state, seat.known = change.after, None
            yield report_change(report, change, None)
            wait_for_engine()


@dataclass(kw_only=True)
class _Seat:
    """Where the watch stands: the state told last, and the start of the container's life seen last."""

    state: StackState = StackState.ABSENT
    known: str | None = None


def _changes(report: Report, seat: _Seat) -> Iterator[tuple[Change, ContainerState | None]]:
    while True:
        container = running_container(report.project)
        if container is None or (container.started_at == seat.known and not container.is_running):
            if container is None and seat.state is not StackState.ABSENT:
                yield Change(before=seat.state, after=StackState.ABSENT, why="the container is gone"), None
            if container is None and seat.known is None:
                report.say(f"{report.project} is not up{'' if report.once else '; waiting until it is'}")
            if report.once:
                return
            wait_for_container(report.project, seat.known)
            continue
        seat.known = container.started_at
        for change in _life(container, seat.state, report):
            yield change, container


def _life(container: ContainerState, state: StackState, report: Report) -> Iterator[Change]:
    """The changes of one life of one container, to its end."""
    book, seen = failure_book(), Watched()
    probe = partial(
        is_healthy,
        container.labels.get(f"{LABEL}.url", ""),
        api_key=recorded_key(container),
        timeout_s=report.patience_s,
    )
    gpus = gpu_count(container)
    events = watch_container(
        container.id,
        probe=probe,
        every_s=report.every_s,
        look=partial(look_at, container.id, gpus=gpus) if gpus else None,
        look_every_s=report.gpus_every_s,
    )
    for event in events:
        if isinstance(event, Line):
            seen = saw_line(seen, event.text, book=book, at_s=event.at_s)
        elif isinstance(event, Probed):
            seen = saw_probe(seen, healthy=event.healthy)
        elif isinstance(event, Looked):
            seen = saw_gpus(seen, event.sample.gpu_failure)
        elif isinstance(event, Ended):
            told = was_told_to_stop(container_events(container.id))
            seen = saw_end(seen, event.exit_code, told_to_stop=told)
        change = change_between(state, seen, now_s=event.at_s)
        if change is not None:
            state = change.after
            yield change
