"""Which run of a stack is there to be measured, and does it still run?"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kitctl.commands.diagnose import diagnose_project
from kitctl.commands.projects import running_container
from kitctl.edge.kit_files import find_kit, load_kit_texts
from kitctl.edge.runs import list_records
from kitctl.errors import Exit, KitError
from kitctl.kit.catalog import stack_names
from kitctl.kit.near import did_you_mean
from kitctl.plan.names import project_name, project_words
from kitctl.plan.types import Request
from kitctl.watch.diagnose import Diagnosis
from kitctl.watch.run_record import Outcome, RunRecord


def run_words(record: RunRecord) -> str:
    """How a user names the run's stack or copy: ``cpu-demo``, ``cpu-demo --name trial``."""
    return _words(record.stack, record.project)


def find_run(request: Request, kit_dir: str | None) -> RunRecord:
    """The newest run of just this stack, copy or rehearsal that is ready, by its record.

    Raises KitError ``not-up`` (exit 3), which tells a stack that could be started from a name that is no stack of
    the kit, or what ended a run that crashed (exit 7).
    """
    project = project_name(request)
    records = list_records()
    own = [record for record in records if record.project == project]
    ready = next((record for record in own if record.outcome is Outcome.READY), None)
    if ready is not None:
        return ready
    if own and own[0].outcome is Outcome.CRASHED and not is_up(own[0]):
        raise not_running(own[0])
    raise _not_up(
        request,
        own[0] if own else None,
        [record for record in records if record.outcome is Outcome.READY],
        _stacks(kit_dir),
    )


def require_running(record: RunRecord) -> None:
    """Raises what ended the run's container (exit 7), ``not-up`` (exit 3) for one told to stop.

    A container that is gone, or that no engine here can tell of, is for the caller to find.
    """
    if is_up(record) is False:
        raise not_running(record)


def is_up(record: RunRecord) -> bool | None:
    """Whether the container of the run's project runs; ``None`` when there is none, or none can be seen."""
    try:
        container = running_container(record.project)
    except KitError:
        return None
    return container.is_running if container is not None else None


def not_running(record: RunRecord) -> KitError:
    """The error of a run that ended before anything was asked of it."""
    words = run_words(record)
    found = _diagnoses(record)
    if found:
        return KitError(
            found[0].code,
            f"{words} is not running: {found[0].cause}",
            evidence=found[0].evidence,
            remedy=f"{found[0].remedy}; 'kitctl diagnose {words}' tells more",
            exit_code=Exit.CRASHED,
        )
    return KitError(
        "not-up",
        f"{words} is not running: its container was stopped or removed",
        remedy=f"kitctl up {words}",
        exit_code=Exit.REFUSED,
    )


def _diagnoses(record: RunRecord) -> tuple[Diagnosis, ...]:
    """What ended a run: as its record tells, else from its container or its log."""
    if record.diagnoses:
        return _recorded(record)
    try:
        return diagnose_project(record.project)
    except KitError:
        return ()


def _recorded(record: RunRecord) -> tuple[Diagnosis, ...]:
    return tuple(msgspec.convert(one, Diagnosis) for one in record.diagnoses)


def _stacks(kit_dir: str | None) -> tuple[str, ...] | None:
    """The stacks that can be started; ``None`` where there is no kit to tell them."""
    try:
        return stack_names(load_kit_texts(find_kit(kit_dir)))
    except KitError:
        return None


def _not_up(
    request: Request, last: RunRecord | None, ready: Sequence[RunRecord], stacks: Sequence[str] | None
) -> KitError:
    words = _words(request.stack, project_name(request))
    copies = tuple(dict.fromkeys(run_words(record) for record in ready if record.stack == request.stack))
    told = tuple(f"{one.code}: {one.cause}" for one in _recorded(last)) if last is not None else ()
    first = (
        f"kitctl diagnose {words}, then " if told else f"name the copy ({copies[0]}), or " if copies else ""
    )
    known = f"ready: {', '.join(copies)}" if copies else did_you_mean(words, map(run_words, ready))
    start = f"kitctl up {words}"
    if stacks is not None and request.stack not in stacks:
        start = "choose a stack that 'kitctl stacks' prints"
        if not copies:
            known = (
                f"there is no stack of that name; {did_you_mean(words, (*stacks, *map(run_words, ready)))}"
            )
    how = f": its last one is {last.outcome.value}" if last is not None else ""
    return KitError(
        "not-up",
        f"no run of {words} is ready{how}",
        evidence=(*told, known),
        remedy=f"{first}{start}, or give the server's address with --url",
        exit_code=Exit.REFUSED,
    )


def _words(stack: str, project: str) -> str:
    _, *more = project_words(project).split(" ", 1)
    return " ".join([stack, *more])
