"""What a change of state leads to: a diagnosis, a record, a line, the user's command."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from kitctl.commands.diagnose import diagnose_container, was_killed_for_memory
from kitctl.commands.projects import kit_containers, running_container
from kitctl.edge.clock import sleep_s
from kitctl.edge.docker_engine import ContainerState, container_state
from kitctl.edge.process import run_process
from kitctl.edge.runs import load_record, now_utc, save_record
from kitctl.errors import KitError
from kitctl.render.compose import LABEL
from kitctl.watch.diagnose import Diagnosis
from kitctl.watch.run_record import Outcome
from kitctl.watch.state import Change, StackState

HOOK_TIMEOUT_S = 60.0
LOOK_EVERY_S = 0.5
BAD = frozenset({StackState.DEGRADED, StackState.FAILING, StackState.CRASHED, StackState.UNWELL})


@dataclass(frozen=True, kw_only=True)
class Report:
    """Whom to tell of which project, and how; how often to ask it, and how long to wait for its answer."""

    project: str
    hook: tuple[str, ...]
    as_json: bool
    say: Callable[[str], None]
    every_s: float
    patience_s: float
    gpus_every_s: float
    once: bool


def report_change(report: Report, change: Change, container: ContainerState | None) -> str:
    """The change as one line; a bad one with its diagnosis. The hook has run and a death is recorded by then."""
    container = (container_state(container.id) or container) if container else None
    seen = change.why if change.after is StackState.DEGRADED else ""
    found = diagnose_container(container, seen=seen) if container and change.after in BAD else ()
    if container is not None and change.after is StackState.CRASHED:
        try:
            _record_crash(container, found)
        except KitError as failed:
            report.say(f"the run's record cannot be written: {failed.cause}")
    body = _body(report, change, found)
    if report.hook:
        done = run_process(report.hook, timeout_s=HOOK_TIMEOUT_S, stdin=json.dumps(body))
        if not done.ok:
            report.say(f"{report.hook[0]}: {done.failure or done.stderr.strip() or done.exit_code}")
    return json.dumps(body) if report.as_json else _line(body)


def wait_for_container(project: str, known: str | None) -> None:
    """Return when the project has a container that started at another time than ``known``, or has none any more."""
    there = running_container(project) is not None
    while True:
        sleep_s(LOOK_EVERY_S)
        container = running_container(project)
        if (container is not None) is not there:
            return
        if container is not None and container.is_running and container.started_at != known:
            return


def wait_for_engine() -> None:
    """Return when the container engine answers again."""
    while True:
        sleep_s(LOOK_EVERY_S)
        with suppress(KitError):
            kit_containers()
            return


def _record_crash(container: ContainerState, found: tuple[Diagnosis, ...]) -> None:
    record = load_record(container.labels.get(f"{LABEL}.run", ""))
    if record is None or record.ended is not None:
        return
    save_record(
        msgspec.structs.replace(
            record,
            outcome=Outcome.CRASHED,
            ended=now_utc(),
            exit_code=container.exit_code,
            oom_killed=was_killed_for_memory(container),
            diagnoses=tuple(msgspec.to_builtins(diagnosis) for diagnosis in found),
        )
    )


def _body(report: Report, change: Change, found: tuple[Diagnosis, ...]) -> dict[str, Any]:
    return {
        "schema": "kitctl.watch/1",
        "at": now_utc(),
        "project": report.project,
        "before": change.before.value,
        "after": change.after.value,
        "why": change.why,
        "diagnoses": [msgspec.to_builtins(diagnosis) for diagnosis in found],
    }


def _line(body: dict[str, Any]) -> str:
    cause = "".join(f"; {found['code']}: {found['cause']}" for found in body["diagnoses"][:1])
    return f"{body['at']} {body['project']} {body['before']} -> {body['after']}: {body['why']}{cause}"
