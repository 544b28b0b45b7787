"""Which bytes came when, for each request? Raw event logs into exchanges, answers and their events."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate

import msgspec

from kitctl.bench.log_format import DATA, END, HEADER, SENT


@dataclass(kw_only=True, slots=True)
class Exchange:
    """One request's life on the wire; times in ns of the client's clock. ``lost``: why no whole answer came."""

    request: int
    stream: int = -1
    begun_ns: int = 0
    due_ns: int = 0
    sent_ns: int | None = None
    end_ns: int = 0
    lost: str | None = None
    pieces: list[tuple[int, bytes]] = field(default_factory=list)


def read_logs(logs: Iterable[bytes]) -> tuple[Exchange, ...]:
    """All exchanges of a load in the order of their requests; a log cut short gives what it holds."""
    found: dict[int, Exchange] = {}
    for log in logs:
        for kind, request, at_ns, payload in _records(log):
            exchange = found.setdefault(request, Exchange(request=request))
            if kind == DATA:
                exchange.pieces.append((at_ns, payload))
            elif kind == SENT:
                exchange.stream, exchange.begun_ns, exchange.due_ns = msgspec.json.decode(payload)
                exchange.sent_ns = at_ns
            elif kind == END:
                exchange.end_ns = at_ns
                exchange.lost = payload.decode("utf-8", "replace") or None
    return tuple(found[request] for request in sorted(found))


def _records(log: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    at, end, size = 0, len(log), HEADER.size
    while at + size <= end:
        kind, request, at_ns, length = HEADER.unpack_from(log, at)
        at += size
        if at + length > end:
            return
        yield kind, request, at_ns, log[at : at + length]
        at += length


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """An HTTP answer: its status, and its body in pieces, each with its time of arrival."""

    status: int
    is_event_stream: bool
    pieces: tuple[tuple[int, bytes], ...]

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(data for _, data in self.pieces)


def read_answer(exchange: Exchange) -> Answer | None:
    """The answer of an exchange, ``None`` when not even its head came."""
    raw = b"".join(data for _, data in exchange.pieces)
    cut = raw.find(b"\r\n\r\n")
    if cut < 0:
        return None
    head = raw[:cut].lower()
    words = head.split(b" ", 2)
    status = int(words[1][:3]) if len(words) > 1 and words[1][:3].isdigit() else 0
    times = _Times(exchange.pieces)
    if _header(head, b"transfer-encoding").endswith(b"chunked"):
        pieces = tuple(_unchunk(raw, cut + 4, times))
    else:
        pieces = tuple(_plain(exchange.pieces, cut + 4))
    streams = b"event-stream" in _header(head, b"content-type") or raw[
        cut + 4 : cut + 24
    ].lstrip().startswith(b"data:")
    return Answer(status=status, is_event_stream=streams, pieces=pieces)


def _header(head: bytes, name: bytes) -> bytes:
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip() == name:
            return value.strip()
    return b""


class _Times:
    """When had the first n bytes of an exchange arrived?"""

    def __init__(self, pieces: list[tuple[int, bytes]]) -> None:
        self.ends = list(accumulate(len(data) for _, data in pieces))
        self.stamps = [at_ns for at_ns, _ in pieces]

    def at(self, size: int) -> int:
        return self.stamps[min(bisect_left(self.ends, size), len(self.stamps) - 1)]


def _unchunk(raw: bytes, at: int, times: _Times) -> Iterator[tuple[int, bytes]]:
    while True:
        line_end = raw.find(b"\r\n", at)
        if line_end < 0:
            return
        try:
            size = int(raw[at:line_end].split(b";")[0], 16)
        except ValueError:
            return
        start = line_end + 2
        data = raw[start : start + size]
        if not size or not data:
            return
        yield times.at(start + len(data)), data
        at = start + size + 2


def _plain(pieces: list[tuple[int, bytes]], skip: int) -> Iterator[tuple[int, bytes]]:
    for at_ns, data in pieces:
        if skip >= len(data):
            skip -= len(data)
            continue
        yield at_ns, data[skip:]
        skip = 0


def events_of(answer: Answer) -> Iterator[tuple[int, bytes]]:
    """The ``data:`` payloads of a server-sent event stream, each with the time at which it was complete."""
    rest = b""
    for at_ns, data in answer.pieces:
        text = (rest + data).replace(b"\r\n", b"\n")
        *events, rest = text.split(b"\n\n")
        for event in events:
            payload = _payload(event)
            if payload:
                yield at_ns, payload
    payload = _payload(rest)
    if payload and answer.pieces:
        yield answer.pieces[-1][0], payload


def _payload(event: bytes) -> bytes:
    if event.startswith(b"data:") and b"\n" not in event:
        return event[5:].strip()
    lines = (line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:"))
    return b"\n".join(lines)
