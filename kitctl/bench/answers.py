"""What did each request get: how many tokens, when, from which model, and why did it end? Exchanges into records.

Tokens come from the server's own count (``usage`` or ``meta_info``), never from the length that was asked for nor
from the number of chunks: a chunk carries as many tokens as the server says, and speculative decoding sends up to
a block at once. A server that counts only at the end has its total spread evenly over its chunks.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from kitctl.bench.event_log import Answer, Exchange, events_of, read_answer, read_logs
from kitctl.bench.load import LoadRun


class Usage(msgspec.Struct):
    """The OpenAI ``usage`` object."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: dict[str, Any] | None = None


class Text(msgspec.Struct):
    """A ``delta`` or ``message``; reasoning models write ``reasoning_content`` first."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: Any = None

    @property
    def anything(self) -> bool:
        """Whether a token's text is in it."""
        return bool(self.content or self.reasoning_content or self.reasoning or self.tool_calls)


class Choice(msgspec.Struct):
    """The first choice of a chunk or of a whole answer."""

    text: str | None = None
    delta: Text | None = None
    message: Text | None = None
    finish_reason: str | None = None
    meta_info: dict[str, Any] | None = None


class Chunk(msgspec.Struct):
    """One event of ``/v1/completions``, ``/v1/chat/completions`` or SGLang's ``/generate``."""

    model: str | None = None
    choices: list[Choice] | None = None
    usage: Usage | None = None
    error: Any = None
    text: str | None = None
    meta_info: dict[str, Any] | None = None
    output_ids: list[int] | None = None


LEAST_KEY_PART = 8
MOST_TOKENS = 10**9
_DECODER = msgspec.json.Decoder(Chunk)


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One request's outcome. Times in ns; ``steps``: (arrival, tokens), one for each moment at which tokens came.

    ``error``: a short kind (``http-500``, ``timeout``, ``connection``, ``open-files``: this host allows no further one,
    ``stream-error``, ``incomplete``, ``bad-answer``), ``None`` when the answer is whole. ``output_tokens`` ``None``:
    the server did not say.
    """

    request: int
    stream: int
    begun_ns: int
    sent_ns: int
    end_ns: int
    due_ns: int = 0
    steps: tuple[tuple[int, float], ...] = ()
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    finish: str | None = None
    model: str | None = None
    error: str | None = None
    detail: str = ""
    text: str = ""
    streamed: bool = True
    meta: dict[str, Any] | None = None
    output_ids: tuple[int, ...] | None = None

    @property
    def ttft_ms(self) -> float | None:
        """Milliseconds from the request on the wire to the first token, of whatever kind."""
        return (self.steps[0][0] - self.sent_ns) / 1e6 if self.steps else None

    @property
    def e2e_ms(self) -> float:
        """Milliseconds from the request on the wire to the last token, or to the end when none came."""
        return ((self.steps[-1][0] if self.steps else self.end_ns) - self.sent_ns) / 1e6

    @property
    def tpot_ms(self) -> float | None:
        """Milliseconds a token after the first chunk: (last - first) / (tokens - tokens of the first chunk)."""
        if len(self.steps) < 2:
            return None
        later = sum(tokens for _, tokens in self.steps[1:])
        return (self.steps[-1][0] - self.steps[0][0]) / 1e6 / later if later > 0 else None


def read_records(exchanges: Iterable[Exchange]) -> tuple[Record, ...]:
    """Every exchange as a record, in order."""
    return tuple(_record(exchange) for exchange in exchanges)


def records_of(run: LoadRun, api_key: str | None) -> tuple[Record, ...]:
    """What came back of a load, without the key where a server repeats it in what it says of a failure."""
    return tuple(
        replace(record, detail=without_key(record.detail, api_key)) if record.detail else record
        for record in read_records(read_logs(run.logs))
    )


def without_key(detail: str, api_key: str | None) -> str:
    """What a server said, on one line and without the key, even one of which only the beginning was kept."""
    line = " ".join("".join(c if c.isprintable() else " " for c in detail).split())
    if not api_key:
        return line
    line = line.replace(api_key, "***")
    cut = next((n for n in range(len(api_key) - 1, LEAST_KEY_PART - 1, -1) if line.endswith(api_key[:n])), 0)
    return f"{line[:-cut]}***" if cut else line


def _record(exchange: Exchange) -> Record:
    answer = read_answer(exchange)
    base = Record(
        request=exchange.request,
        stream=exchange.stream,
        begun_ns=exchange.begun_ns,
        due_ns=exchange.due_ns,
        sent_ns=exchange.sent_ns if exchange.sent_ns is not None else exchange.end_ns,
        end_ns=exchange.end_ns,
    )
    if answer is not None and answer.status != 200:
        return _failed(base, f"http-{answer.status}", answer.body[:300].decode("utf-8", "replace"))
    found = _from_answer(base, answer) if answer is not None else base
    if exchange.lost is not None:
        return _failed(found, _kind_of(exchange.lost), exchange.lost)
    return found


def _kind_of(lost: str) -> str:
    if lost.startswith(f"[Errno {errno.EMFILE}]"):
        return "open-files"
    return "timeout" if lost.startswith("timeout") else "connection"


def _failed(record: Record, kind: str, detail: str) -> Record:
    fields = {name: getattr(record, name) for name in Record.__slots__}
    return Record(**(fields | {"error": kind, "detail": detail}))


def _from_answer(base: Record, answer: Answer) -> Record:
    payloads = list(events_of(answer)) if answer.is_event_stream else [(base.end_ns, answer.body)]
    ended = bool(payloads) and payloads[-1][1] == b"[DONE]"
    try:
        chunks = [(at_ns, _DECODER.decode(data)) for at_ns, data in payloads if data != b"[DONE]"]
    except (msgspec.DecodeError, msgspec.ValidationError) as broken:
        return _failed(base, "bad-answer", str(broken))
    if not answer.is_event_stream and not any(_is_answer(chunk) for _, chunk in chunks):
        return _failed(
            base, "bad-answer", f"it holds no choice: {answer.body[:300].decode('utf-8', 'replace')}"
        )
    record = _from_chunks(base, chunks, streamed=answer.is_event_stream)
    if record.error is None and record.finish is None and not ended and answer.is_event_stream:
        return _failed(record, "incomplete", "the stream ended without a finish reason and without [DONE]")
    return record


def _is_answer(chunk: Chunk) -> bool:
    return bool(chunk.choices or chunk.error) or chunk.text is not None


def _from_chunks(base: Record, chunks: list[tuple[int, Chunk]], *, streamed: bool) -> Record:
    usages = [usage for _, chunk in chunks if (usage := _usage(chunk)) is not None]
    if (wrong := next(filter(None, map(_wrong_count, usages)), None)) is not None:
        return _failed(base, "bad-answer", wrong)
    totals = [usage.completion_tokens for usage in usages if usage.completion_tokens is not None]
    error = next((chunk.error for _, chunk in chunks if chunk.error), None)
    finish = next((reason for _, chunk in reversed(chunks) if (reason := _finish(chunk)) is not None), None)
    kind = "stream-error" if error or finish in ("abort", "error") else None
    return Record(
        request=base.request,
        stream=base.stream,
        begun_ns=base.begun_ns,
        due_ns=base.due_ns,
        sent_ns=base.sent_ns,
        end_ns=base.end_ns,
        steps=_steps(chunks, totals[-1] if totals else None),
        prompt_tokens=next((u.prompt_tokens for u in reversed(usages) if u.prompt_tokens is not None), None),
        output_tokens=totals[-1] if totals else None,
        cached_tokens=next((c for u in reversed(usages) if (c := _cached(u)) is not None), None),
        finish=finish,
        model=next((chunk.model for _, chunk in chunks if chunk.model), None),
        error=kind,
        detail=str(error or finish or "")[:300] if kind else "",
        text=_text(chunks),
        streamed=streamed,
        meta=next((meta for _, chunk in reversed(chunks) if (meta := _meta(chunk)) is not None), None),
        output_ids=next((tuple(chunk.output_ids) for _, chunk in reversed(chunks) if chunk.output_ids), None),
    )


def _meta(chunk: Chunk) -> dict[str, Any] | None:
    """SGLang's own account of a request; chat gives it per choice when asked with ``return_meta_info``."""
    return chunk.meta_info or (chunk.choices[0].meta_info if chunk.choices else None)


def _usage(chunk: Chunk) -> Usage | None:
    if chunk.usage is not None or chunk.meta_info is None:
        return chunk.usage
    details = {"cached_tokens": chunk.meta_info.get("cached_tokens")}
    return Usage(
        prompt_tokens=chunk.meta_info.get("prompt_tokens"),
        completion_tokens=chunk.meta_info.get("completion_tokens"),
        prompt_tokens_details=details,
    )


def _wrong_count(usage: Usage) -> str | None:
    """A number of tokens that no request can have; a server of OpenAI's form may send anything."""
    counts = {
        "prompt": usage.prompt_tokens,
        "completion": usage.completion_tokens,
        "cached": _cached(usage),
    }
    for name, count in counts.items():
        is_count = isinstance(count, int) and 0 <= count <= MOST_TOKENS
        if count is not None and not is_count:
            return f"its usage tells {str(count)[:40]} {name} tokens"
    return None


def _cached(usage: Usage) -> Any:
    """What the server tells of cached tokens; a count, once ``_wrong_count`` has nothing against it."""
    return (usage.prompt_tokens_details or {}).get("cached_tokens")


def _finish(chunk: Chunk) -> str | None:
    if chunk.choices:
        return chunk.choices[0].finish_reason
    reason = (chunk.meta_info or {}).get("finish_reason")
    return str(reason.get("type")) if isinstance(reason, dict) else None


def _has_text(chunk: Chunk) -> bool:
    if chunk.text:
        return True
    choice = chunk.choices[0] if chunk.choices else None
    if choice is None:
        return False
    part = choice.delta or choice.message
    return bool(choice.text) or (part is not None and part.anything)


def _text(chunks: list[tuple[int, Chunk]]) -> str:
    """The visible answer. ``/generate`` repeats the whole text in each chunk, the others send pieces."""
    whole = [chunk.text for _, chunk in chunks if chunk.text is not None]
    if whole:
        return whole[-1]
    parts = []
    for _, chunk in chunks:
        for choice in (chunk.choices or [])[:1]:
            part = choice.delta or choice.message
            parts.append(choice.text or (part.content if part is not None else None) or "")
    return "".join(parts)


def _steps(chunks: list[tuple[int, Chunk]], total: int | None) -> tuple[tuple[int, float], ...]:
    """When how many tokens came: by the running count where chunks carry one, else the total spread evenly."""
    texts = [at_ns for at_ns, chunk in chunks if _has_text(chunk)]
    counts = [
        (at_ns, usage.completion_tokens)
        for at_ns, chunk in chunks
        if (usage := _usage(chunk)) is not None and usage.completion_tokens is not None
    ]
    if len(counts) > 1 and 2 * len(counts) >= len(texts):
        return _merge(_increments(counts))
    if total is None:
        return _merge([(at_ns, 0.0) for at_ns in texts])
    if not texts:
        return ((counts[-1][0], float(total)),) if total else ()
    return _merge([(at_ns, total / len(texts)) for at_ns in texts])


def _increments(counts: list[tuple[int, int]]) -> list[tuple[int, float]]:
    found = []
    before = 0
    for at_ns, count in counts:
        if count > before:
            found.append((at_ns, float(count - before)))
            before = count
    return found


def _merge(steps: list[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Chunks that were read together arrived at one moment: one step."""
    merged: list[tuple[int, float]] = []
    for at_ns, tokens in steps:
        if merged and merged[-1][0] == at_ns:
            merged[-1] = (at_ns, merged[-1][1] + tokens)
        else:
            merged.append((at_ns, tokens))
    return tuple(merged)
