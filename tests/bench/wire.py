"""Build event logs as a load client writes them."""

import json
from typing import Any

from kitctl.bench.log_format import DATA, END, HEADER, SENT

MS = 1_000_000
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def entry(kind: int, request: int, at_ms: float, payload: bytes = b"") -> bytes:
    return HEADER.pack(kind, request, int(at_ms * MS), len(payload)) + payload


def sent(request: int, at_ms: float, *, stream: int = 0, begun_ms: float | None = None) -> bytes:
    begun = int((at_ms if begun_ms is None else begun_ms) * MS)
    return entry(SENT, request, at_ms, json.dumps([stream, begun, 0]).encode())


def data(request: int, at_ms: float, payload: bytes) -> bytes:
    return entry(DATA, request, at_ms, payload)


def end(request: int, at_ms: float, why: str = "") -> bytes:
    return entry(END, request, at_ms, why.encode())


def chunk(payload: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(payload), payload)


def event(body: Any) -> bytes:
    return b"data: " + (body if isinstance(body, bytes) else json.dumps(body).encode()) + b"\n\n"


def completion(text: str, *, tokens: int | None = None, finish: str | None = None, **usage: Any) -> bytes:
    body: dict[str, Any] = {"model": "demo", "choices": [{"index": 0, "text": text, "finish_reason": finish}]}
    if tokens is not None:
        body["usage"] = {"prompt_tokens": 10, "completion_tokens": tokens, **usage}
    return event(body)
