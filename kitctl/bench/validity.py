"""May a point be believed? The rules, each with its limit, and what else is worth knowing of a point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kitctl.bench.answers import Record
from kitctl.bench.failed import ERROR_SHARE, too_many_failed
from kitctl.bench.measure import Health, Repeat
from kitctl.bench.statistics import mean, spread_of

TWO_REPEATS = "two repeats give very wide intervals; --repeats 3 gives far narrower ones"
WIDE_INTERVAL = 0.5
"""Share of the rate; what is judged beside such a point is told nothing by it."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Beyond these a point is refused. Shares are of 1.

    ``busy_from_s``: shorter repeats say nothing of the client's share of a core.
    ``template_tokens``: cached tokens a chat request may have for the template's own head, which all share.
    """

    error_share: float = ERROR_SHARE
    cached_share: float = 0.01
    template_tokens: int = 32
    counter_difference: float = 0.01
    cpu_share: float = 0.9
    busy_from_s: float = 1.0
    lag_mean_ms: float = 2.0
    lag_share_of_ttft: float = 0.03
    late_ms: float = 50.0
    window_completions_per_stream: float = 2.0


def first_look(record: Record, *, model: str, served: Sequence[str] | None) -> str | None:
    """Why no point can be valid, as a first answer shows; ``None`` when nothing speaks against it."""
    if record.error is not None:
        return f"errors: {record.error} {record.detail}".rstrip()
    if record.model is not None and record.model != model:
        return f"wrong-model: {record.model} answered, {model} was asked for"
    if served is not None and model not in served:
        return f"wrong-model: the server serves {', '.join(served) or 'nothing'}, not {model}"
    if record.output_tokens is None:
        return "no-usage: the server gives no token count"
    return "zero-tokens: the answer held no token" if record.output_tokens == 0 else None


def invalid_reasons(
    repeats: Sequence[Repeat], *, model: str, served: Sequence[str] | None, is_chat: bool, limits: Limits
) -> Iterable[str]:
    """Why a point must not be believed, each as ``code: what was seen``; none when it may be."""
    yield from _answer_reasons(repeats, model, served, limits)
    yield from _cache_reasons(repeats, is_chat, limits)
    yield from client_reasons(repeats, limits)
    difference = counter_difference(repeats)
    told = not any(repeat.unknown_tokens for repeat in repeats)
    if told and difference is not None and abs(difference) > limits.counter_difference:
        yield f"server-counters: the client counted {difference:+.1%} tokens against the server's own counter"


def _answer_reasons(
    repeats: Sequence[Repeat], model: str, served: Sequence[str] | None, limits: Limits
) -> Iterable[str]:
    requests = sum(repeat.requests for repeat in repeats)
    kinds = sum_counts(repeat.error_kinds for repeat in repeats)
    if (failed := too_many_failed(kinds, requests, share=limits.error_share)) is not None:
        said = next((f"; the first: {r.first_error}" for r in repeats if r.first_error), "")
        yield f"{failed}{said}"
    unknown = sum(repeat.unknown_tokens for repeat in repeats)
    if unknown:
        yield f"no-usage: the server gave no token count for {unknown} answers"
    zero = sum(repeat.zero_tokens for repeat in repeats)
    if zero:
        yield f"zero-tokens: {zero} answers held no token"
    if plain := sum(repeat.not_streamed for repeat in repeats):
        yield f"not-streamed: {plain} answers came in one piece, so the time to the first token is unknown"
    others = [name for name in sum_counts(repeat.models for repeat in repeats) if name != model]
    if others:
        yield f"wrong-model: {', '.join(others)} answered, {model} was asked for"
    elif served is not None and model not in served:
        yield f"wrong-model: the server serves {', '.join(served) or 'nothing'}, not {model}"


def _cache_reasons(repeats: Sequence[Repeat], is_chat: bool, limits: Limits) -> Iterable[str]:
    share = cached_share(repeats)
    if share is None:
        return
    prompts = sum(repeat.prompt_tokens for repeat in repeats)
    answered = sum(repeat.answered for repeat in repeats)
    allowed = limits.cached_share
    if is_chat and prompts:
        allowed += limits.template_tokens * answered / prompts
    if share > allowed:
        yield f"cached-tokens: {share:.1%} of the prompt tokens came from the prefix cache (limit {allowed:.1%})"


def client_reasons(repeats: Sequence[Repeat], limits: Limits) -> Iterable[str]:
    """Why the load client, not the server, may have set the figures."""
    for repeat in repeats:
        wanted = limits.window_completions_per_stream * repeat.streams_wanted
        if repeat.concurrency is not None and repeat.window_completed + repeat.errors < wanted:
            yield (
                f"short-window: {repeat.window_completed} requests completed while all {repeat.concurrency} "
                f"streams were busy, {wanted:g} are needed (ask for more requests a stream)"
            )
            break
    health = worst_health(repeats)
    if health is None:
        return
    shares = [
        r.health.cpu_share for r in repeats if r.health is not None and r.duration_s >= limits.busy_from_s
    ]
    busy = max(shares, default=0.0)
    if busy > limits.cpu_share:
        yield f"client-busy: the load client used {busy:.0%} of a core and may be the bottleneck"
    first = spread_of([value for repeat in repeats for value in repeat.ttft_ms])
    allowed = max(limits.lag_mean_ms, limits.lag_share_of_ttft * (first.mean if first else 0.0))
    if health.lag_mean_ms > allowed:
        yield f"client-late: the load client ran {health.lag_mean_ms:.1f} ms late on average (limit {allowed:.1f})"
    late = max((repeat.late_ms or 0.0 for repeat in repeats), default=0.0)
    if late > limits.late_ms:
        yield f"schedule-late: requests went out {late:.0f} ms after their time (99th percentile)"


def server_notes(
    concurrency: int | None, server: Mapping[str, Any] | None, dataset: str | None
) -> Iterable[str]:
    """What the server's own settings say of a point. ``server``: the kept part of ``/server_info``."""
    if server is None:
        return
    most = server.get("max_running_requests")
    if (
        isinstance(most, int)
        and concurrency is not None
        and concurrency > most * max(1, server.get("dp_size") or 1)
    ):
        yield f"the server runs {most} requests at once, the others wait: the plateau above is its limit, not its speed"
    if server.get("speculative_algorithm") and dataset == "random":
        yield "a drafter takes random token ids as it takes no real text: measure it with --dataset kit or a file"


def notes_of(
    repeats: Sequence[Repeat],
    limits: Limits,
    *,
    rate: float | None,
    interval: tuple[float, float] | None,
) -> Iterable[str]:
    """What else is worth knowing of a point. ``rate``: its output tokens per second, and their 95 % ``interval``."""
    yield from width_notes(len(repeats), rate=rate, interval=interval)
    if any(repeat.answered for repeat in repeats):
        yield from _answer_notes(repeats, has_interval=interval is not None)
    runs = tuple(dict.fromkeys(repeat.run for repeat in repeats if repeat.run is not None))
    if len(runs) > 1:
        yield f"the stack was started anew between its repeats, so they are of {len(runs)} runs: {', '.join(runs)}"
    if retakes := sum(repeat.retakes for repeat in repeats):
        yield f"{retakes} repeats were thrown away and taken again because this machine was busy"
    for reason in sorted({r for repeat in repeats if repeat.gpu is not None for r in repeat.gpu.throttled}):
        yield f"GPU clocks were held back: {reason}"


def width_notes(repeats: int, *, rate: float | None, interval: tuple[float, float] | None) -> Iterable[str]:
    """That the interval is too wide to tell much: wider than the rate itself of two repeats, or than half of it."""
    if not rate or interval is None:
        return
    width = (interval[1] - interval[0]) / rate
    if repeats == 2 and width > 1:
        yield TWO_REPEATS
    elif width > WIDE_INTERVAL:
        yield f"the interval is {width:.0%} of the rate wide: smaller differences are noise (raise --repeats)"


def _answer_notes(repeats: Sequence[Repeat], *, has_interval: bool) -> Iterable[str]:
    early = sum(repeat.stopped_early for repeat in repeats)
    if early:
        yield f"{early} answers stopped before the length asked for; tokens are counted as sent"
    if len(repeats) == 1 and not has_interval:
        yield "one repeat gives no interval (raise --repeats)"
    elif len(repeats) < 3 and has_interval:
        yield f"{len(repeats)} repeat(s): the interval is a lower bound of the true uncertainty"
    if any(r.concurrency is not None and r.window_completed < 3 * r.streams_wanted for r in repeats):
        yield "fewer than three completions a stream in the steady window"
    if all(repeat.server is None or repeat.server.generation_tokens is None for repeat in repeats):
        yield "the server publishes no token counter: no cross-check (start it with --enable-metrics)"
    if cached_share(repeats) is None:
        yield "the server does not tell cached tokens"


def cached_share(repeats: Sequence[Repeat]) -> float | None:
    """The share of prompt tokens that came from the prefix cache: from the answers, else from the counters."""
    cached = [repeat.cached_tokens for repeat in repeats if repeat.cached_tokens is not None]
    prompts = sum(repeat.prompt_tokens for repeat in repeats if repeat.cached_tokens is not None)
    if cached and prompts:
        return sum(cached) / prompts
    servers = [r.server for r in repeats if r.server is not None and r.server.cached_tokens is not None]
    counted = sum(server.prompt_tokens or 0.0 for server in servers)
    return sum(server.cached_tokens or 0.0 for server in servers) / counted if counted else None


def counter_difference(repeats: Sequence[Repeat]) -> float | None:
    """(client - server) / server of generated tokens; ``None`` when the server publishes no such counter."""
    pairs = [
        (repeat.output_tokens, repeat.server.generation_tokens)
        for repeat in repeats
        if repeat.server is not None and repeat.server.generation_tokens is not None
    ]
    counted = sum(server for _, server in pairs)
    return (sum(client for client, _ in pairs) - counted) / counted if counted else None


def sum_counts(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    """Counts by name, added up."""
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)


def worst_health(repeats: Sequence[Repeat]) -> Health | None:
    """The client's health over all repeats, at its worst where that decides."""
    seen = [repeat.health for repeat in repeats if repeat.health is not None]
    if not seen:
        return None
    costs = [health.cpu_us_per_chunk for health in seen if health.cpu_us_per_chunk is not None]
    return Health(
        processes=max(health.processes for health in seen),
        cpu_share=max(health.cpu_share for health in seen),
        cpu_us_per_chunk=mean(costs) if costs else None,
        lag_mean_ms=mean([health.lag_mean_ms for health in seen]),
        lag_p99_ms=max(health.lag_p99_ms for health in seen),
        lag_max_ms=max(health.lag_max_ms for health in seen),
        reconnects=sum(health.reconnects for health in seen),
    )
