"""Which failures are known, by which lines are they told, and what mends them? Types and reader.

The records are data (``kitctl/data/failures.yaml``): a new failure is a record with a real sample of its log, no code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from kitctl.kit.typed import read_typed
from kitctl.kit.yaml_reader import read_yaml

Scalar = str | int | float | bool


class Weight(StrEnum):
    """How a match ranks: a ``cause`` explains; a ``consequence`` follows from another process's death and
    counts only when no cause is seen; ``degraded`` runs but serves worse; ``note`` is told when nothing else is."""

    CAUSE = "cause"
    CONSEQUENCE = "consequence"
    DEGRADED = "degraded"
    NOTE = "note"


class Change(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One change of a stack: ``path`` as ``--set`` takes it, to ``to``, or by ``add`` or ``times`` of what it was.

    ``start`` stands for a value that the stack leaves to the engine; ``least`` and ``most`` bound the result.
    """

    path: str
    to: Scalar | None = None
    add: float | None = None
    times: float | None = None
    start: float | None = None
    least: float | None = None
    most: float | None = None


class Rung(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step of a remedy ladder: changes made together, and why they may help."""

    why: str
    changes: tuple[Change, ...]


class FailureRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One known failure.

    A line tells it when one of ``patterns`` matches, each of ``near`` matches a line close by, each of ``also``
    one anywhere and none of ``absent`` any. A later line that matches ``undone_by`` takes it back (a stall that
    ended). ``least_matches`` such lines are wanted and, with ``among``, at least ``least_share`` of the lines
    that match it. ``cause`` and ``remedy`` may use the pattern's named groups. ``yields_to``: codes that explain
    it, so that it is not told beside them. ``shm_below_bytes``: dropped when /dev/shm is known to be as large.
    """

    code: str
    patterns: tuple[str, ...]
    cause: str
    remedy: str
    source: str
    sample: str
    weight: Weight = Weight.CAUSE
    near: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    undone_by: tuple[str, ...] = ()
    among: str | None = None
    least_matches: int = 1
    least_share: float = 0.0
    yields_to: tuple[str, ...] = ()
    shm_below_bytes: int | None = None
    versions: str = "any"
    condition: str | None = None
    ladder: tuple[Rung, ...] = ()


class SilentRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do when a start stands still in one of these phases and no line says why."""

    phases: tuple[str, ...]
    remedy: str
    ladder: tuple[Rung, ...] = ()


class EventRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an event of the container engine means, where no line tells more.

    ``signals``: only with one of these. ``undone_by``: a later event that takes it back. ``cause`` may use ``signal``
    and ``at``.
    """

    code: str
    action: str
    cause: str
    remedy: str
    source: str
    signals: tuple[int, ...] | None = None
    undone_by: str | None = None


class _FailureFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schema: str
    ready: tuple[str, ...]
    stopping: tuple[str, ...]
    fatal: tuple[str, ...]
    benign: tuple[str, ...]
    error: tuple[str, ...]
    silent: tuple[SilentRecord, ...]
    events: tuple[EventRecord, ...]
    failures: tuple[FailureRecord, ...]


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A record with its patterns compiled: they match within one line, of one line or of many joined."""

    record: FailureRecord
    patterns: tuple[re.Pattern[str], ...]
    near: tuple[re.Pattern[str], ...]
    also: tuple[re.Pattern[str], ...]
    absent: tuple[re.Pattern[str], ...]
    undone_by: tuple[re.Pattern[str], ...]
    among: re.Pattern[str] | None


@dataclass(frozen=True, kw_only=True)
class FailureBook:
    """All that is known of failures.

    ``ready`` matches the line of a server that came up, ``stopping`` that of one told to stop, ``fatal`` lines that
    no start survives, ``benign`` lines that are never a cause however they look, ``error`` lines that look like the
    cause of a failure nobody recorded yet. ``silent``: what to do at a standstill without a line. ``events``:
    what the container engine's own events mean, in the order in which they are asked.
    """

    ready: re.Pattern[str]
    stopping: re.Pattern[str]
    fatal: re.Pattern[str]
    benign: re.Pattern[str]
    error: re.Pattern[str]
    silent: tuple[SilentRecord, ...]
    events: tuple[EventRecord, ...]
    failures: tuple[Failure, ...]


def read_failures(text: str, *, source: str = "failures.yaml") -> FailureBook:
    """The failure book that ``text`` holds. Raises KitError ``bad-yaml`` or ``bad-file`` (exit 2)."""
    read = read_typed(read_yaml(text, source=source), _FailureFile, source_of=lambda _: source)
    return FailureBook(
        ready=_any_of(read.ready),
        stopping=_any_of(read.stopping),
        fatal=_any_of(read.fatal),
        benign=_any_of(read.benign),
        error=_any_of(read.error),
        silent=read.silent,
        events=read.events,
        failures=tuple(_compile(record) for record in read.failures),
    )


def _compile(record: FailureRecord) -> Failure:
    return Failure(
        record=record,
        patterns=_all(record.patterns),
        near=_all(record.near),
        also=_all(record.also),
        absent=_all(record.absent),
        undone_by=_all(record.undone_by),
        among=re.compile(record.among, re.MULTILINE) if record.among else None,
    )


def _all(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.MULTILINE) for pattern in patterns)


def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.MULTILINE)
