"""Can the journal be believed? Lines with a chained checksum; a last line cut short by a kill counts as never written.

A line is ``{"sum":"<16 hex digits>",<the entry>}``. The sum covers the sum of the line before and the entry's text, so
a line that was changed, lost or moved is found.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from kitctl.bench.figures import wrong_figure
from kitctl.campaign.events import Done, Entry, Event
from kitctl.errors import Exit, KitError

_HEAD, _MIDDLE, _DIGITS = b'{"sum":"', b'",', 16
_BODY_AT = len(_HEAD) + _DIGITS + len(_MIDDLE)
FIRST_SUM = "0" * _DIGITS
_DECODER = msgspec.json.Decoder(Entry)


@dataclass(frozen=True, kw_only=True)
class Journal:
    """What is on disk. ``good_bytes``: how long the whole lines are; what follows them was cut short."""

    entries: tuple[Entry, ...] = ()
    last_sum: str = FIRST_SUM
    good_bytes: int = 0
    torn_bytes: int = 0


def seal(event: Event, *, at: str, number: int, last_sum: str) -> tuple[bytes, str]:
    """The line of an entry, with its line end, and its sum."""
    body = msgspec.json.encode(Entry(n=number, at=at, event=event))[1:]
    digest = _sum(last_sum, body)
    return _HEAD + digest.encode() + _MIDDLE + body + b"\n", digest


def _sum(last_sum: str, body: bytes) -> str:
    return hashlib.sha256(last_sum.encode() + body).hexdigest()[:_DIGITS]


def read_journal(raw: bytes, *, name: str) -> Journal:
    """All whole entries.

    Raises KitError ``journal-broken`` (exit 2) when a line before the last is not as written, ``bad-result`` (exit 2)
    when one holds a figure that nothing can have measured.
    """
    entries: list[Entry] = []
    last_sum, good = FIRST_SUM, 0
    for line in _lines(raw):
        entry = _open(line, last_sum, number=len(entries) + 1)
        if entry is None:
            if good + len(line) < len(raw):
                raise _broken(name, len(entries) + 1)
            break
        if (wrong := _wrong_figure(entry)) is not None:
            raise _unmeasured(name, len(entries) + 1, wrong)
        entries.append(entry)
        last_sum = line[len(_HEAD) : len(_HEAD) + _DIGITS].decode()
        good += len(line)
    return Journal(entries=tuple(entries), last_sum=last_sum, good_bytes=good, torn_bytes=len(raw) - good)


def _lines(raw: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(raw):
        end = raw.find(b"\n", start)
        end = len(raw) if end < 0 else end + 1
        yield raw[start:end]
        start = end


def _open(line: bytes, last_sum: str, *, number: int) -> Entry | None:
    """The entry of a line; ``None`` when it is not whole or not the one that must stand here."""
    is_framed = line.startswith(_HEAD) and line[_BODY_AT - len(_MIDDLE) : _BODY_AT] == _MIDDLE
    if not is_framed or not line.endswith(b"\n"):
        return None
    body = line[_BODY_AT:-1]
    if line[len(_HEAD) : len(_HEAD) + _DIGITS].decode("ascii", "replace") != _sum(last_sum, body):
        return None
    try:
        entry = _DECODER.decode(b"{" + body)
    except msgspec.DecodeError:
        return None
    return entry if entry.n == number else None


def _wrong_figure(entry: Entry) -> str | None:
    """What is wrong with the repeat that an entry holds, if it holds one."""
    repeat = entry.event.repeat if isinstance(entry.event, Done) else None
    return wrong_figure(msgspec.to_builtins(repeat)) if repeat is not None else None


def _unmeasured(name: str, line: int, wrong: str) -> KitError:
    return KitError(
        "bad-result",
        f"{name} holds what nothing can have measured: line {line}: {wrong}",
        remedy="restore the file from a copy, or begin anew with --fresh (the old one is kept)",
        exit_code=Exit.USAGE,
    )


def _broken(name: str, line: int) -> KitError:
    return KitError(
        "journal-broken",
        f"{name}: line {line} is not as kitctl wrote it",
        evidence=("its checksum does not follow from the line before",),
        remedy="restore the file from a copy, or begin anew with --fresh (the old one is kept)",
        exit_code=Exit.USAGE,
    )
