"""What was actually up? The record of one run, written at every turn of its life.

``plan`` is the object that ``kitctl plan --json`` prints; ``facts`` the host facts it was made from.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from kitctl.watch.redact import redacted


class Outcome(StrEnum):
    """Where a run's life stands."""

    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"
    CRASHED = "crashed"


class PhaseTime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One phase of a start and how long it took (wall clock)."""

    name: str
    seconds: float


class RunModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model that was mounted, by what proves it."""

    model: str
    role: str
    commit: str | None = None
    content_hash: str | None = None


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run of one stack. Times are UTC, ISO 8601; ``order`` counts the runs of this user here."""

    schema: str = "kitctl.run/1"
    id: str
    stack: str
    project: str
    fingerprint: str
    kitctl: str
    command: tuple[str, ...]
    started: str
    outcome: Outcome
    url: str
    served_model: str
    plan: dict[str, Any]
    facts: dict[str, Any]
    image_id: str | None = None
    container_id: str | None = None
    argv_live: tuple[str, ...] = ()
    models: tuple[RunModel, ...] = ()
    phases: tuple[PhaseTime, ...] = ()
    ready: str | None = None
    ended: str | None = None
    exit_code: int | None = None
    oom_killed: bool | None = None
    kv_tokens: int | None = None
    canary: dict[str, Any] | None = None
    findings: tuple[dict[str, Any], ...] = ()
    diagnoses: tuple[dict[str, Any], ...] = ()
    remedies: tuple[dict[str, Any], ...] = ()
    api_key_file: str | None = None
    folder: str = ""
    order: int = 0


def read_record(text: str) -> RunRecord:
    """The record in ``text``. Raises msgspec.DecodeError when it is none."""
    return msgspec.json.decode(text, type=RunRecord)


def record_text(record: RunRecord) -> str:
    """The record as indented JSON, secrets in environments and argvs hidden."""
    return (
        msgspec.json.format(msgspec.json.encode(redacted(msgspec.to_builtins(record))), indent=2).decode()
        + "\n"
    )
