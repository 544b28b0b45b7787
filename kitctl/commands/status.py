"""``kitctl status``: the truth about one stack, rebuilt from the engine, the labels and the record."""

from __future__ import annotations

import argparse
from typing import Any

import msgspec

from kitctl.commands.diagnose import diagnose_container
from kitctl.commands.projects import (
    PROJECT_LABEL,
    add_nodes_argument,
    add_project_arguments,
    project_of,
    require_container,
)
from kitctl.edge.container_gpus import ask_gpus
from kitctl.edge.docker_engine import ContainerState
from kitctl.edge.files import read_text_if_there
from kitctl.edge.runs import load_record
from kitctl.edge.serving import is_healthy, served_models
from kitctl.errors import Exit
from kitctl.render.compose import LABEL
from kitctl.result import Context, Result
from kitctl.watch.diagnose import diagnosis_lines
from kitctl.watch.drift import find_drift
from kitctl.watch.run_record import RunRecord


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``status``."""
    add_project_arguments(parser)
    add_nodes_argument(parser)


def run(args: argparse.Namespace, context: Context) -> Result:
    """State, answer and drift.

    Exit 0 when it answers, 9 when it answers and has lost its GPUs, 7 when it died, 8 when it does not answer.
    """
    if args.nodes:
        from kitctl.commands.nodes import status_on_nodes

        return status_on_nodes(args, context)
    del context
    container = require_container(project_of(args))
    row = status_row(container)
    url, key = str(row["url"]), recorded_key(container)
    row["healthy"] = container.is_running and is_healthy(url, api_key=key)
    row["serves"] = list(served_models(url, api_key=key) or ()) if row["healthy"] else []
    reach = ask_gpus(container.id, planned=len(row["gpus"])) if container.is_running else None
    row["gpu_failure"] = reach.failure if reach else None
    is_well = row["healthy"] and row["gpu_failure"] is None
    row["state"] = "degraded" if row["healthy"] and not is_well else row["state"]
    found = () if is_well else diagnose_container(container, seen=row["gpu_failure"] or "")
    if row["state"] == "crashed" and not found:
        row["state"] = "stopped"
    row["diagnoses"] = [msgspec.to_builtins(diagnosis) for diagnosis in found]
    lines = (*_lines(row), *(f"  {line}" for line in diagnosis_lines(found)))
    exit_code = Exit.OK if is_well else Exit.GATE if row["healthy"] else Exit.NOT_READY
    exit_code = exit_code if container.is_running else Exit.CRASHED
    return Result(data={"schema": "kitctl.status/1", **row}, lines=lines, exit=exit_code)


def recorded_key(container: ContainerState) -> str | None:
    """The API key of the run that the container belongs to, from the file that its record names."""
    record = load_record(container.labels.get(f"{LABEL}.run", ""))
    if record is None or record.api_key_file is None:
        return None
    text = read_text_if_there(record.api_key_file)
    return text.strip() if text else None


def status_row(container: ContainerState) -> dict[str, Any]:
    """One container as a row: what it is, how it fares, and where it differs from its plan."""
    record = load_record(container.labels.get(f"{LABEL}.run", ""))
    return {
        "stack": container.labels.get(f"{LABEL}.stack"),
        "project": container.labels.get(PROJECT_LABEL),
        "state": state_word(container, record),
        "exit_code": None if container.is_running else container.exit_code,
        "restarts": container.restart_count,
        "url": container.labels.get(f"{LABEL}.url"),
        "model": container.labels.get(f"{LABEL}.model"),
        "overlays": container.labels.get(f"{LABEL}.overlays", "").split(","),
        "gpus": [gpu for gpu in container.labels.get(f"{LABEL}.gpus", "").split(",") if gpu],
        "plan": container.labels.get(f"{LABEL}.plan"),
        "run": container.labels.get(f"{LABEL}.run"),
        "image_id": container.image_id,
        "since": container.started_at,
        "drift": list(
            find_drift(
                record,
                argv=container.argv,
                image_id=container.image_id,
                environment=container.environment,
            )
        ),
    }


def state_word(container: ContainerState, record: RunRecord | None) -> str:
    """``ready``, ``loading``, ``crashed``, ``exited`` ... as record and engine tell; ``running`` without a record."""
    if container.is_running and record is None:
        return "running"
    if container.is_running:
        return "ready" if record is not None and record.ready else "loading"
    if record is None:
        return container.status
    return "crashed" if record.ended is None else record.outcome.value


def _lines(row: dict[str, Any]) -> list[str]:
    serving = ", ".join(row["serves"]) or "nothing"
    lines = [
        f"{row['project']}: {row['state']}, {'answers' if row['healthy'] else 'does not answer'} at {row['url']}",
        f"  serves   {serving}",
        f"  overlay  {' + '.join(row['overlays'])}, gpus {', '.join(row['gpus']) or 'none'}",
        f"  since    {row['since']}, restarts {row['restarts']}",
        f"  plan     {row['plan']}, run {row['run']}",
    ]
    lines += [f"  drift    {line}" for line in row["drift"]]
    if row["state"] == "stopped":
        lines.append(f"  ended    somebody told it to stop; 'kitctl up {row['stack']}' starts it again")
    return lines + ([f"  gpus     cannot be reached: {row['gpu_failure']}"] if row["gpu_failure"] else [])
