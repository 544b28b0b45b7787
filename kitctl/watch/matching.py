"""Which known failures does a log show, and at which line each?"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from kitctl.kit.failures import Failure, FailureBook, FailureRecord
from kitctl.watch.lines import LogLine, split_line

LINES_BEFORE = 160
LINES_AFTER = 30


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message of a log: ``number`` is its physical line from 1; lines of a traceback bear its rank."""

    number: int
    text: str
    rank: str | None


@dataclass(frozen=True, kw_only=True)
class Log:
    """A log's messages, the indices of those that are not benign, and the texts of all and of those as one."""

    messages: tuple[Message, ...]
    suspects: tuple[int, ...]
    blob: str
    suspect_blob: str


@dataclass(frozen=True, kw_only=True)
class Match:
    """A known failure, the index of the message that tells it, and what its pattern caught."""

    record: FailureRecord
    at: int
    caught: dict[str, str]
    evidence: tuple[int, ...]


def read_messages(text: str) -> tuple[Message, ...]:
    """The log's messages without progress bars, each with the rank that said it, as far as can be told."""
    found: list[Message] = []
    rank: str | None = None
    for number, raw in enumerate(text.split("\n"), start=1):
        for line in split_line(raw):
            rank = _speaker(line, rank)
            if not line.is_bar:
                found.append(Message(number=number, text=line.text, rank=rank))
    return tuple(found)


def _speaker(line: LogLine, previous: str | None) -> str | None:
    """A line with the engine's stamp names its own rank (or none); one without belongs to the line before."""
    return line.rank if line.rank is not None or line.stamp_s is not None else previous


def find_matches(
    messages: tuple[Message, ...], book: FailureBook, *, shm_bytes: int | None
) -> tuple[Match, ...]:
    """All known failures that the messages show, benign lines left out, in the order of the lines."""
    suspects = tuple(at for at, message in enumerate(messages) if not book.benign.search(message.text))
    log = Log(
        messages=messages,
        suspects=suspects,
        blob="\n".join(message.text for message in messages),
        suspect_blob="\n".join(messages[at].text for at in suspects),
    )
    found = (_match(failure, log) for failure in book.failures if _holds(failure.record, shm_bytes))
    return tuple(sorted((match for match in found if match), key=lambda match: match.at))


def _holds(record: FailureRecord, shm_bytes: int | None) -> bool:
    bound = record.shm_below_bytes
    return bound is None or shm_bytes is None or shm_bytes < bound


def _match(failure: Failure, log: Log) -> Match | None:
    hitting = [pattern for pattern in failure.patterns if pattern.search(log.suspect_blob)]
    if not hitting or any(pattern.search(log.blob) for pattern in failure.absent):
        return None
    if not all(pattern.search(log.suspect_blob) for pattern in (*failure.near, *failure.also)):
        return None
    hits = [hit for hit in _hits(hitting, log) if _stands(failure, log, hit[0])]
    if not hits or not _enough(failure, log.messages, len(hits)):
        return None
    at, caught = hits[0]
    return Match(
        record=failure.record,
        at=at,
        caught={name: value for name, value in caught.groupdict().items() if value},
        evidence=(*_near_lines(failure, log, at), *(hit[0] for hit in hits[:3])),
    )


def _hits(patterns: list[re.Pattern[str]], log: Log) -> Iterator[tuple[int, re.Match[str]]]:
    for at in log.suspects:
        for pattern in patterns:
            found = pattern.search(log.messages[at].text)
            if found:
                yield at, found
                break


def _stands(failure: Failure, log: Log, at: int) -> bool:
    """Whether every ``near`` line is there and no later line takes the failure back."""
    near = all(
        any(pattern.search(log.messages[index].text) for index in _window(log, at))
        for pattern in failure.near
    )
    later = log.messages[at + 1 :] if near else ()
    return near and not any(
        pattern.search(message.text) for pattern in failure.undone_by for message in later
    )


def _window(log: Log, at: int) -> tuple[int, ...]:
    """The messages close to one, benign ones left out."""
    return log.suspects[
        bisect_left(log.suspects, at - LINES_BEFORE) : bisect_right(log.suspects, at + LINES_AFTER)
    ]


def _near_lines(failure: Failure, log: Log, at: int) -> tuple[int, ...]:
    """For each ``near`` pattern the last line before the failure, or else the first after it, that matches."""
    lines: list[int] = []
    for pattern in failure.near:
        window = [index for index in _window(log, at) if pattern.search(log.messages[index].text)]
        before = [index for index in window if index <= at]
        lines.append(before[-1] if before else window[0])
    return tuple(lines)


def _enough(failure: Failure, messages: tuple[Message, ...], hits: int) -> bool:
    record = failure.record
    if hits < record.least_matches:
        return False
    if failure.among is None:
        return True
    of = sum(1 for message in messages if failure.among.search(message.text))
    return hits >= record.least_share * of
