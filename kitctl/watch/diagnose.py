"""Why did a start fail or a server die? The first cause, with its evidence and remedy.

Known failures are records (``kitctl.kit.failures``). A cause outranks a consequence of another process's death,
whichever line came first; a failure without a record is called ``unknown``.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kitctl.kit.failures import FailureBook, FailureRecord, Rung, Weight
from kitctl.watch.ending import Ending, EngineEvent, met_memory_limit, was_told_to_stop
from kitctl.watch.matching import Match, Message, find_matches, read_messages

MAX_EVIDENCE = 6
MAX_EVIDENCE_CHARACTERS = 400
OOM_CODE = "host-oom-killer"
UNKNOWN = "unknown"


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """One named failure. ``line`` is its place in the log from 1, ``rank`` who said it (``TP3 EP1``).

    ``severity`` is ``cause``, ``consequence`` (the cause left no line), ``degraded`` (it runs, but worse),
    ``note`` or ``unknown``. ``ladder`` lists changes to try in order, gentlest first.
    """

    code: str
    severity: str
    cause: str
    evidence: tuple[str, ...]
    remedy: str
    rank: str | None = None
    line: int | None = None
    ladder: tuple[Rung, ...] = ()
    source: str | None = None


def diagnose(
    text: str,
    book: FailureBook,
    *,
    exit_code: int | None = None,
    oom_killed: bool | None = None,
    restart_count: int | None = None,
    shm_bytes: int | None = None,
    health: str | None = None,
    events: tuple[EngineEvent, ...] = (),
) -> tuple[Diagnosis, ...]:
    """The failures that a log and an end show, first cause first; empty when nothing is wrong.

    ``shm_bytes``: size of the container's /dev/shm, if known. ``events``: those of its latest life. A server told to
    stop is no failure, whatever its exit code.
    """
    ending = Ending(
        exit_code=exit_code,
        oom_killed=met_memory_limit(events) or oom_killed,
        restart_count=restart_count,
        health=health,
        events=events,
    )
    messages = read_messages(text)
    matches = _without_explained(find_matches(messages, book, shm_bytes=shm_bytes))
    of_weight = {weight: [m for m in matches if m.record.weight is weight] for weight in Weight}
    causes = _first_and_own(of_weight[Weight.CAUSE], messages)
    if not causes:
        causes = _consequence(of_weight[Weight.CONSEQUENCE], messages, book)
    found = [_diagnosis(match, messages) for match in causes]
    if ending.oom_killed and not any(match.record.weight is Weight.CAUSE for match in causes):
        found = [_oom_killed(book, ending)]
    if not found and not was_told_to_stop(events):
        found = list(diagnose_events(events, book))
    if not found and (lines := _failed_unknown(messages, book, ending)):
        found = [_unknown(lines, ending)]
    if not found:
        found = [_diagnosis(match, messages) for match in of_weight[Weight.DEGRADED]]
    return tuple(found or [_diagnosis(match, messages) for match in of_weight[Weight.NOTE]])


def diagnose_silence(code: str, why: str, *, phase: str, book: FailureBook) -> Diagnosis:
    """The diagnosis of a start that no line explains: it stands still in ``phase``."""
    known = next(record for record in book.silent if phase in record.phases)
    return Diagnosis(
        code=code, severity=UNKNOWN, cause=why, evidence=(), remedy=known.remedy, ladder=known.ladder
    )


def diagnose_events(events: tuple[EngineEvent, ...], book: FailureBook) -> tuple[Diagnosis, ...]:
    """What somebody did to the container, by the container engine's own events; empty when nobody did anything."""
    for record in book.events:
        done = [at for at, event in enumerate(events) if event.action == record.action]
        done = [at for at in done if record.signals is None or events[at].signal in record.signals]
        if not done or any(event.action == record.undone_by for event in events[done[-1] :]):
            continue
        cause = record.cause.format(signal=events[done[0]].signal, at=events[done[0]].at)
        return (
            Diagnosis(
                code=record.code,
                severity=Weight.CAUSE,
                cause=cause,
                evidence=Ending(events=events).describe()[:MAX_EVIDENCE],
                remedy=record.remedy,
                source=record.source,
            ),
        )
    return ()


def diagnosis_lines(diagnoses: Iterable[Diagnosis]) -> list[str]:
    """Diagnoses as text for a person, first cause first, each with its evidence and remedy."""
    lines: list[str] = []
    for found in diagnoses:
        place = f" (rank {found.rank})" if found.rank else ""
        lines.append(f"{found.severity.upper()} {found.code}{place}: {found.cause}")
        lines.extend(f"      seen: {line}" for line in found.evidence)
        lines.append(f"      do:   {found.remedy}")
        for step, rung in enumerate(found.ladder, start=1):
            lines.append(f"      or {step}: {rung_text(rung)} ({rung.why})")
    return lines


def rung_text(rung: Rung) -> str:
    """A rung as a person reads it: ``engine.graphs=decode``, ``engine.mem_fraction_static -0.05``."""
    parts = []
    for change in rung.changes:
        if change.to is not None:
            parts.append(f"{change.path}={change.to}".replace("=True", "=true"))
        elif change.add is not None:
            parts.append(f"{change.path} {change.add:+g}")
        else:
            parts.append(f"{change.path} x {change.times:g}")
    return ", ".join(parts)


def _without_explained(matches: tuple[Match, ...]) -> tuple[Match, ...]:
    """One match a code, the earliest; none beside a code that explains it."""
    codes = {match.record.code for match in matches}
    kept: dict[str, Match] = {}
    for match in matches:
        if not codes & set(match.record.yields_to):
            kept.setdefault(match.record.code, match)
    return tuple(kept.values())


def _first_and_own(causes: list[Match], messages: tuple[Message, ...]) -> list[Match]:
    """The first cause, and later ones of the same rank: what other ranks say afterwards follows from it."""
    if not causes:
        return []
    first = messages[causes[0].at].rank
    return [match for match in causes if first is None or messages[match.at].rank in (first, None)]


def _consequence(consequences: list[Match], messages: tuple[Message, ...], book: FailureBook) -> list[Match]:
    """The first consequence, unless the server was told to stop before it."""
    for match in consequences[:1]:
        if not any(book.stopping.search(message.text) for message in messages[: match.at]):
            return [match]
    return []


def _diagnosis(match: Match, messages: tuple[Message, ...]) -> Diagnosis:
    record, told = match.record, messages[match.at]
    return Diagnosis(
        code=record.code,
        severity=record.weight,
        cause=_filled(record.cause, match),
        evidence=_quoted(messages[at].text for at in match.evidence),
        remedy=_filled(record.remedy, match),
        rank=told.rank,
        line=told.number,
        ladder=record.ladder,
        source=record.source,
    )


class _Caught(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "of that line"


def _filled(sentence: str, match: Match) -> str:
    return sentence.format_map(_Caught(match.caught))


def _quoted(lines: Iterable[str]) -> tuple[str, ...]:
    unique = dict.fromkeys(line.strip()[:MAX_EVIDENCE_CHARACTERS] for line in lines if line.strip())
    return tuple(unique)[:MAX_EVIDENCE]


def _oom_killed(book: FailureBook, ending: Ending) -> Diagnosis:
    record: FailureRecord = next(f.record for f in book.failures if f.record.code == OOM_CODE)
    return Diagnosis(
        code=record.code,
        severity=record.weight,
        cause=record.cause,
        evidence=ending.describe(),
        remedy=record.remedy,
        ladder=record.ladder,
        source=record.source,
    )


def _failed_unknown(messages: tuple[Message, ...], book: FailureBook, ending: Ending) -> tuple[str, ...]:
    """The likeliest lines of a failure without a record; empty when nothing failed."""
    own = [message.text for message in messages if not book.benign.search(message.text)]
    if was_told_to_stop(ending.events) or any(book.stopping.search(text) for text in own):
        return ()
    last_ready = max((at for at, text in enumerate(own) if book.ready.search(text)), default=-1)
    fatal = [text for text in own if book.fatal.search(text)]
    errors = [text for at, text in enumerate(own) if book.error.search(text) and (fatal or at > last_ready)]
    ended_badly = ending.exit_code is not None or bool(ending.restart_count)
    if not fatal and not ended_badly and not (errors and last_ready < 0):
        return ()
    return tuple(errors or fatal or own[-3:]) or ("the log is empty",)


def _unknown(lines: tuple[str, ...], ending: Ending) -> Diagnosis:
    return Diagnosis(
        code=UNKNOWN,
        severity=UNKNOWN,
        cause="the start failed or the server died in a way that no record describes",
        evidence=_quoted((*lines[: MAX_EVIDENCE - 1], *ending.describe())),
        remedy=(
            "read these lines and what stands above them in 'kitctl logs'; to report it send the log, the run record "
            "('kitctl runs show') and 'kitctl diagnose --json'"
        ),
    )
