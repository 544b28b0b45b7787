"""What does a point say over all its repeats, and may it be believed? The result type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kitctl.bench.measure import Gpu, Health, Repeat
from kitctl.bench.statistics import Spread, interval_of, mean, spread_of, spread_of_bins
from kitctl.bench.validity import (
    Limits,
    cached_share,
    counter_difference,
    invalid_reasons,
    notes_of,
    server_notes,
    sum_counts,
    worst_health,
)


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """A service level in milliseconds; ``None`` does not matter."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One concurrency (or request rate) over all its repeats. ``None``: not known; reasons or notes say why.

    Rates are means over repeats of the steady window; intervals are 95 %. ``tpot_ms`` is (last - first) / (tokens
    after the first chunk); ``itl_ms`` is per token, ``chunk_gap_ms`` per chunk. ``accept_length`` is generated
    tokens per verify step, from the difference of the server's counters over the point.
    """

    concurrency: int | None
    output_tokens_per_s: float | None
    output_tokens_per_s_interval: tuple[float, float] | None
    ttft_ms: Spread | None
    tpot_ms: Spread | None
    requests: int
    errors: int
    valid: bool
    invalid_reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()
    request_rate: float | None = None
    repeats: int = 0
    completed: int = 0
    error_kinds: dict[str, int] = {}
    stops: dict[str, int] = {}
    stopped_early: int = 0
    repeat_output_tokens_per_s: tuple[float, ...] = ()
    total_tokens_per_s: float | None = None
    requests_per_s: float | None = None
    whole_run_output_tokens_per_s: float | None = None
    ttft_ms_interval: tuple[float, float] | None = None
    tpot_ms_interval: tuple[float, float] | None = None
    itl_ms: Spread | None = None
    chunk_gap_ms: Spread | None = None
    e2e_ms: Spread | None = None
    tokens_per_chunk: float | None = None
    prompt_tokens_mean: float | None = None
    output_tokens_mean: float | None = None
    cached_share: float | None = None
    goodput_requests_per_s: float | None = None
    goodput_share: float | None = None
    accept_length: float | None = None
    server_counter_difference: float | None = None
    client: Health | None = None
    gpu: Gpu | None = None
    first_error: str | None = None
    schema: str = "kitctl.bench.point/1"


def point_of(repeats: Sequence[Repeat], *, model: str, served: Sequence[str] | None, is_chat: bool,
             goal: Goal | None = None, limits: Limits | None = None, server: Mapping[str, Any] | None = None,
             dataset: str | None = None) -> Point:  # fmt: skip
    """Pool the repeats of one point. ``served``: the model names that the server lists, ``None`` when it does not.

    ``server``: the kept part of its ``/server_info``, for notes.
    """
    limits = limits or Limits()
    reasons = tuple(invalid_reasons(repeats, model=model, served=served, is_chat=is_chat, limits=limits))
    throughput = _throughput(repeats)
    rate, interval = throughput["output_tokens_per_s"], throughput["output_tokens_per_s_interval"]
    notes = notes_of(repeats, limits, rate=rate, interval=interval)
    return Point(
        concurrency=repeats[0].concurrency,
        request_rate=repeats[0].request_rate,
        repeats=len(repeats),
        valid=not reasons,
        invalid_reasons=reasons,
        notes=(*notes, *server_notes(repeats[0].concurrency, server, dataset)),
        goodput_share=_goodput_share(repeats, goal),
        goodput_requests_per_s=_goodput(repeats, goal),
        client=worst_health(repeats),
        gpu=next((repeat.gpu for repeat in repeats if repeat.gpu is not None), None),
        **throughput,
        **_requests(repeats),
        **_latencies(repeats),
        **_tokens(repeats),
        **_told_by_server(repeats),
    )


# the fields of a point ------------------------------------------------------------------------------------------------
def _throughput(repeats: Sequence[Repeat]) -> dict[str, Any]:
    """Rates; those of tokens are not known where the server did not count them all."""
    if not _knows_tokens(repeats):
        rates, interval, total, whole = [], None, None, None
    else:
        rates = [rate for repeat in repeats if (rate := _rate(repeat, "output_tokens")) is not None]
        interval, whole = _rate_interval(repeats), _whole_run(repeats)
        total = _mean_rate(repeats, "output_tokens", "prompt_tokens")
    return {
        "output_tokens_per_s": mean(rates) if rates else None,
        "output_tokens_per_s_interval": interval,
        "repeat_output_tokens_per_s": tuple(rates),
        "total_tokens_per_s": total,
        "whole_run_output_tokens_per_s": whole,
        "requests_per_s": _mean_rate(repeats, "completed"),
    }


def _requests(repeats: Sequence[Repeat]) -> dict[str, Any]:
    """What became of the requests."""
    return {
        "requests": sum(repeat.requests for repeat in repeats),
        "completed": sum(repeat.answered for repeat in repeats),
        "errors": sum(repeat.errors for repeat in repeats),
        "error_kinds": sum_counts(repeat.error_kinds for repeat in repeats),
        "first_error": next((repeat.first_error for repeat in repeats if repeat.first_error), None),
        "stops": sum_counts(repeat.stops for repeat in repeats),
        "stopped_early": sum(repeat.stopped_early for repeat in repeats),
    }


def _latencies(repeats: Sequence[Repeat]) -> dict[str, Any]:
    """Milliseconds over all requests of all repeats."""
    ttft = [repeat.ttft_ms for repeat in repeats]
    tpot = [repeat.tpot_ms for repeat in repeats]
    between = spread_of_bins(_sum_bins(repeat.itl_bins for repeat in repeats))
    return {
        "ttft_ms": spread_of([value for values in ttft for value in values]),
        "ttft_ms_interval": interval_of(ttft),
        "tpot_ms": spread_of([value for values in tpot for value in values]),
        "tpot_ms_interval": interval_of(tpot),
        "itl_ms": between if _knows_tokens(repeats) else None,
        "chunk_gap_ms": spread_of_bins(_sum_bins(repeat.gap_bins for repeat in repeats)),
        "e2e_ms": spread_of([value for repeat in repeats for value in repeat.e2e_ms]),
    }


def _tokens(repeats: Sequence[Repeat]) -> dict[str, Any]:
    """Tokens of a request and of a chunk, in the mean."""
    is_known = _knows_tokens(repeats)
    answered = sum(repeat.answered for repeat in repeats)
    tokens = sum(repeat.output_tokens for repeat in repeats)
    chunks = sum(repeat.chunks for repeat in repeats)
    return {
        "tokens_per_chunk": tokens / chunks if is_known and chunks else None,
        "prompt_tokens_mean": sum(r.prompt_tokens for r in repeats) / answered if answered else None,
        "output_tokens_mean": tokens / answered if is_known and answered else None,
    }


def _told_by_server(repeats: Sequence[Repeat]) -> dict[str, Any]:
    """What the server's own counters say."""
    return {
        "cached_share": cached_share(repeats),
        "accept_length": _accept_length(repeats),
        "server_counter_difference": counter_difference(repeats),
    }


def _knows_tokens(repeats: Sequence[Repeat]) -> bool:
    """Whether the server counted the tokens of every answer."""
    return all(repeat.unknown_tokens == 0 for repeat in repeats) and any(r.output_tokens for r in repeats)


# rates --------------------------------------------------------------------------------------------------------------
def _stream_values(repeat: Repeat, *fields: str) -> list[float]:
    return [
        sum(getattr(stream, field) for field in fields) / stream.seconds
        for stream in repeat.streams
        if stream.seconds > 0
    ]


def _rate(repeat: Repeat, *fields: str) -> float | None:
    """The sum of the streams' rates; a stream without a counted request is taken to run as the others do."""
    values = _stream_values(repeat, *fields)
    return mean(values) * repeat.streams_wanted if values else None


def _mean_rate(repeats: Sequence[Repeat], *fields: str) -> float | None:
    rates = [rate for repeat in repeats if (rate := _rate(repeat, *fields)) is not None]
    return mean(rates) if rates else None


def _rate_interval(repeats: Sequence[Repeat]) -> tuple[float, float] | None:
    streams = repeats[0].streams_wanted
    found = interval_of([_stream_values(repeat, "output_tokens") for repeat in repeats])
    return (found[0] * streams, found[1] * streams) if found else None


def _whole_run(repeats: Sequence[Repeat]) -> float | None:
    """Tokens over the time from the first request to the last answer, ramp and tail included."""
    rates = [repeat.output_tokens / repeat.duration_s for repeat in repeats if repeat.duration_s > 0]
    return mean(rates) if rates else None


def _goodput_share(repeats: Sequence[Repeat], goal: Goal | None) -> float | None:
    if goal is None:
        return None
    met = sum(_meets(repeat, goal) for repeat in repeats)
    counted = sum(len(repeat.e2e_ms) + repeat.errors for repeat in repeats)
    return met / counted if counted else None


def _meets(repeat: Repeat, goal: Goal) -> int:
    limits = ((repeat.ttft_ms, goal.ttft_ms), (repeat.tpot_ms, goal.tpot_ms), (repeat.e2e_ms, goal.e2e_ms))
    asked = [(values, limit) for values, limit in limits if limit is not None]
    return sum(
        all(number >= len(values) or values[number] <= limit for values, limit in asked)
        for number in range(len(repeat.e2e_ms))
    )


def _goodput(repeats: Sequence[Repeat], goal: Goal | None) -> float | None:
    share = _goodput_share(repeats, goal)
    rate = _mean_rate(repeats, "completed")
    return share * rate if share is not None and rate is not None else None


# the server's own word ------------------------------------------------------------------------------------------------
def _accept_length(repeats: Sequence[Repeat]) -> float | None:
    servers = [repeat.server for repeat in repeats if repeat.server is not None]
    tokens = sum(server.generation_tokens or 0.0 for server in servers)
    calls = sum(server.verify_calls or 0.0 for server in servers)
    return tokens / calls if calls else None


# pooling --------------------------------------------------------------------------------------------------------------
def _sum_bins(all_bins: Iterable[dict[int, float]]) -> dict[int, float]:
    total: dict[int, float] = {}
    for bins in all_bins:
        for number, count in bins.items():
            total[number] = total.get(number, 0.0) + count
    return total
