"""What did one repeat of one point deliver? Records into a repeat: rates over the steady window, latencies, counts.

The window is the time in which every stream is busy: from the start of the last stream's first request to the end of
the first stream that found no further request. Counted are the requests that lie wholly inside. A stream's rate is
the tokens of its counted requests over the time from the first one's start to the last one's end, and the point's
rate is the sum over streams: whole request cycles only, so neither ramp nor tail nor a cut request enters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from kitctl.bench.answers import Record
from kitctl.bench.counters import Counters
from kitctl.bench.failed import failed_kinds
from kitctl.bench.statistics import bin_of, percentile

LATE_END_SHARE = 0.05
MOST_DETAIL = 200


class StreamRate(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One stream inside the window: output and prompt tokens, completed requests, and the seconds they took."""

    output_tokens: int
    prompt_tokens: int
    completed: int
    seconds: float


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The client's own state: processes, the busiest one's share of a core, lateness of its 10 ms beat."""

    processes: int
    cpu_share: float
    cpu_us_per_chunk: float | None
    lag_mean_ms: float
    lag_p99_ms: float
    lag_max_ms: float
    reconnects: int = 0


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """What nvidia-smi said while the load ran: mean power of all GPUs, hottest, slowest clock, throttle reasons."""

    power_w: float | None
    temperature_c: float | None
    clock_min_mhz: float | None
    throttled: tuple[str, ...] = ()


class Repeat(msgspec.Struct, frozen=True, kw_only=True):
    """One repeat of one point, complete enough to pool repeats later. Lists hold one value a counted request.

    ``run``: the id of the stack's run that answered, ``None`` for a server that is no stack.
    """

    concurrency: int | None
    request_rate: float | None
    repeat: int
    seed: int
    requests: int
    errors: int
    error_kinds: dict[str, int]
    stops: dict[str, int]
    stopped_early: int
    models: dict[str, int]
    unknown_tokens: int
    zero_tokens: int
    not_streamed: int
    window_s: float
    window_completed: int
    streams: tuple[StreamRate, ...]
    streams_wanted: int
    duration_s: float
    output_tokens: int
    prompt_tokens: int
    cached_tokens: int | None
    answered: int
    ttft_ms: tuple[float, ...]
    tpot_ms: tuple[float, ...]
    e2e_ms: tuple[float, ...]
    lengths: tuple[int, ...]
    itl_bins: dict[int, float]
    gap_bins: dict[int, float]
    chunks: int
    late_ms: float | None = None
    health: Health | None = None
    server: Counters | None = None
    flushed: bool | None = None
    gpu: Gpu | None = None
    retakes: int = 0
    first_error: str | None = None
    run: str | None = None
    schema: str = "kitctl.bench.repeat/1"


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a repeat was asked to do, as far as its figures depend on it."""

    concurrency: int | None
    request_rate: float | None
    repeat: int
    seed: int
    output_tokens: int | None


def measure(records: Sequence[Record], asked: Asked) -> Repeat:
    """The figures of one repeat. ``asked.output_tokens``: length asked for with end-of-sequence ignored, else None."""
    begin_ns, end_ns = _window(records, open_loop=asked.concurrency is None)
    good = [record for record in records if record.error is None]
    inside = [r for r in good if r.begun_ns >= begin_ns and r.end_ns <= end_ns]
    all_inside = [r for r in records if r.begun_ns >= begin_ns and r.end_ns <= end_ns]
    cached = [record.cached_tokens for record in good if record.cached_tokens is not None]
    return Repeat(
        concurrency=asked.concurrency,
        request_rate=asked.request_rate,
        repeat=asked.repeat,
        seed=asked.seed,
        requests=len(records),
        errors=len(records) - len(good),
        error_kinds=failed_kinds(record.error for record in records),
        stops=dict(Counter(record.finish or "unknown" for record in good)),
        stopped_early=_stopped_early(good, asked.output_tokens),
        models=dict(Counter(record.model for record in good if record.model is not None)),
        unknown_tokens=sum(1 for record in good if record.output_tokens is None),
        zero_tokens=sum(1 for r in good if r.output_tokens == 0 or (r.output_tokens is None and not r.steps)),
        not_streamed=sum(1 for record in good if not record.streamed),
        window_s=max(0, end_ns - begin_ns) / 1e9,
        window_completed=len(inside),
        streams=_stream_rates(all_inside) if asked.concurrency is not None else _open_rate(all_inside),
        streams_wanted=asked.concurrency or 1,
        duration_s=_duration_s(records),
        output_tokens=sum(record.output_tokens or 0 for record in good),
        prompt_tokens=sum(record.prompt_tokens or 0 for record in good),
        cached_tokens=sum(cached) if cached else None,
        answered=len(good),
        ttft_ms=tuple(round(t, 4) for r in inside if (t := r.ttft_ms) is not None),
        tpot_ms=tuple(round(t, 4) for r in inside if (t := r.tpot_ms) is not None and r.output_tokens),
        e2e_ms=tuple(round(record.e2e_ms, 4) for record in inside),
        lengths=tuple(record.output_tokens or 0 for record in inside),
        itl_bins=_itl_bins(inside),
        gap_bins=_gap_bins(inside),
        chunks=sum(len(record.steps) for record in records),
        late_ms=_lateness_ms(records),
        first_error=next((r.detail[:MOST_DETAIL] for r in records if r.error is not None and r.detail), None),
    )


def _window(records: Sequence[Record], *, open_loop: bool) -> tuple[int, int]:
    if not records:
        return 0, 0
    if open_loop:
        return min(r.begun_ns for r in records), max(r.end_ns for r in records)
    firsts: dict[int, int] = {}
    lasts: dict[int, int] = {}
    for record in records:
        firsts[record.stream] = min(firsts.get(record.stream, record.begun_ns), record.begun_ns)
        lasts[record.stream] = max(lasts.get(record.stream, 0), record.end_ns)
    typical_ns = percentile(sorted(r.end_ns - r.begun_ns for r in records), 0.5)
    return max(firsts.values()), min(lasts.values()) + int(LATE_END_SHARE * typical_ns)


def _stream_rates(inside: Iterable[Record]) -> tuple[StreamRate, ...]:
    by_stream: dict[int, list[Record]] = {}
    for record in inside:
        by_stream.setdefault(record.stream, []).append(record)
    return tuple(_rate(own) for _, own in sorted(by_stream.items()))


def _open_rate(records: Sequence[Record]) -> tuple[StreamRate, ...]:
    return (_rate(records),) if records else ()


def _rate(records: Sequence[Record]) -> StreamRate:
    good = [record for record in records if record.error is None]
    return StreamRate(
        output_tokens=sum(record.output_tokens or 0 for record in good),
        prompt_tokens=sum(record.prompt_tokens or 0 for record in good),
        completed=len(good),
        seconds=(max(r.end_ns for r in records) - min(r.begun_ns for r in records)) / 1e9,
    )


def _stopped_early(good: Iterable[Record], wanted: int | None) -> int:
    if wanted is None:
        return 0
    return sum(1 for r in good if r.output_tokens is not None and r.output_tokens < wanted)


def _duration_s(records: Sequence[Record]) -> float:
    if not records:
        return 0.0
    return (max(r.end_ns for r in records) - min(r.begun_ns for r in records)) / 1e9


def _lateness_ms(records: Sequence[Record]) -> float | None:
    """How late open-loop requests went out at the 99th percentile; ``None`` in a closed loop."""
    late = sorted((r.sent_ns - r.due_ns) / 1e6 for r in records if r.due_ns)
    return percentile(late, 0.99) if late else None


def _itl_bins(records: Iterable[Record]) -> dict[int, float]:
    """Time a token: each gap between steps shared evenly by the tokens that it brought."""
    bins: dict[int, float] = {}
    for record in records:
        for (before, _), (at_ns, tokens) in zip(record.steps, record.steps[1:], strict=False):
            if tokens > 0:
                number = bin_of((at_ns - before) / 1e6 / tokens)
                bins[number] = bins.get(number, 0.0) + tokens
    return bins


def _gap_bins(records: Iterable[Record]) -> dict[int, float]:
    """Time between chunks, whatever they hold: what a reader of the stream sees as pauses."""
    bins: dict[int, float] = {}
    for record in records:
        for (before, _), (at_ns, _) in zip(record.steps, record.steps[1:], strict=False):
            number = bin_of((at_ns - before) / 1e6)
            bins[number] = bins.get(number, 0.0) + 1.0
    return bins
