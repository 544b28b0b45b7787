"""What do run records say: one line each, one in full, two compared?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kitctl.render.difference import argv_flags
from kitctl.watch.redact import redacted
from kitctl.watch.run_record import RunRecord

NOT_COMPARED = ("id", "folder", "started", "ready", "ended", "container_id", "schema", "command", "order")
"""What differs between any two runs and says nothing."""
NOT_COMPARED_BELOW = ("facts.clock_", "facts.unknown", "plan.fingerprint", "plan.decisive", "plan.why")
_PASSING = re.compile(
    r"facts\.ram_available_bytes|facts\.disks\[\d+\]\.free_bytes|canary\.answers\[\d+\]\.prompt"
    r"|(?:findings|diagnoses|remedies)\[\d+\]\.(?!code|cause|settings|outcome)"
)
"""What changes by itself, and what only repeats another difference."""


def run_json(record: RunRecord) -> dict[str, Any]:
    """The record as plain data, secrets hidden."""
    shown: dict[str, Any] = redacted(msgspec.to_builtins(record))
    return shown


def run_row(record: RunRecord) -> dict[str, Any]:
    """The record in short: what ran, how it went, how long until it answered, and why it failed."""
    return {
        "id": record.id,
        "stack": record.stack,
        "project": record.project,
        "outcome": record.outcome.value,
        "started": record.started,
        "ready_after_s": total_s(record),
        "diagnosis": str(record.diagnoses[0]["code"]) if record.diagnoses else None,
        "plan": record.fingerprint,
    }


def total_s(record: RunRecord) -> float | None:
    """Seconds from the command to the first answer, or ``None`` when there was none."""
    return next((phase.seconds for phase in record.phases if phase.name == "total"), None)


def row_line(row: Mapping[str, Any]) -> str:
    """A row as text."""
    ready = f"{row['ready_after_s']:.1f} s" if row["ready_after_s"] is not None else "-"
    reason = row["diagnosis"] or ""
    return f"{row['id']:52}  {row['outcome']:11}  {ready:>9}  {reason}".rstrip()


def show_lines(record: RunRecord) -> list[str]:
    """The record for a person."""
    lines = [
        f"{record.id}: {record.stack}, {record.outcome.value}",
        f"  started  {record.started}, ready {record.ready or '-'}, ended {record.ended or '-'}",
        f"  plan     {record.fingerprint}, image {record.image_id or '-'}",
        *(f"  model    {model.role}: {model.model} {_proof(model)}".rstrip() for model in record.models),
        f"  argv     {' '.join(redacted(list(record.argv_live) or list(record.plan.get('argv', ()))))}",
        *(f"  {phase.name:12} {phase.seconds:8.1f} s" for phase in record.phases),
    ]
    if record.exit_code is not None:
        lines.append(f"  exit     {record.exit_code}, OOMKilled {record.oom_killed}")
    for found in (*record.findings, *(record.canary or {}).get("findings", ()), *record.diagnoses):
        lines += [
            f"  {found['code']}: {found['cause']}",
            *(f"    seen: {line}" for line in found["evidence"]),
        ]
        lines.append(f"    do:   {found['remedy']}")
    return [*lines, f"  folder   {record.folder}"]


def _proof(model: Any) -> str:
    return f"commit {model.commit}" if model.commit else f"content {model.content_hash or '-'}"


def diff_runs(before: RunRecord, after: RunRecord) -> tuple[dict[str, Any], ...]:
    """What differs, as ``{path, before, after}``; phases come last, with their seconds. Secrets stay hidden."""
    old, new = dict(_leaves(_compared(before))), dict(_leaves(_compared(after)))
    paths = [*old, *(path for path in new if path not in old)]
    found = [
        {"path": path, "before": old.get(path), "after": new.get(path)}
        for path in paths
        if old.get(path) != new.get(path)
        and not path.startswith(NOT_COMPARED_BELOW)
        and not _PASSING.match(path)
    ]
    return (*found, *_phase_differences(before, after))


def diff_lines(row: Mapping[str, Any]) -> list[str]:
    """One difference as text; of an argv one line a flag that differs."""
    before, after = row["before"], row["after"]
    if row["path"] == "plan.argv" and before and after:
        old, new = argv_flags(before), argv_flags(after)
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        return [f"{name}: {_shown(old.get(name))} -> {_shown(new.get(name))}" for name in names]
    return [f"{row['path']}: {_shown(before)} -> {_shown(after)}"]


def _shown(value: Any) -> str:
    return "not set" if value is None else str(value)


def _compared(record: RunRecord) -> dict[str, Any]:
    """The record without what says nothing: the live argv too, where it is as planned."""
    as_planned = list(record.argv_live) == list(record.plan.get("argv", ()))
    left_out = {*NOT_COMPARED, "phases", *(("argv_live",) if as_planned else ())}
    return {name: value for name, value in run_json(record).items() if name not in left_out}


def _leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted path and value of each leaf; a list of scalars is one leaf."""
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            yield from _leaves(value, f"{path}.{name}".lstrip("."))
    elif isinstance(tree, Sequence) and not isinstance(tree, str) and any(map(_is_branch, tree)):
        for at, value in enumerate(tree):
            yield from _leaves(value, f"{path}[{at}]")
    elif tree not in ([], ()):
        yield path, list(tree) if isinstance(tree, Sequence) and not isinstance(tree, str) else tree


def _is_branch(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple)


def _phase_differences(before: RunRecord, after: RunRecord) -> list[dict[str, Any]]:
    old = {phase.name: phase.seconds for phase in before.phases}
    new = {phase.name: phase.seconds for phase in after.phases}
    names = [*old, *(name for name in new if name not in old)]
    return [
        {"path": f"phases.{name}", "before": old.get(name), "after": new.get(name)}
        for name in names
        if old.get(name) != new.get(name)
    ]
