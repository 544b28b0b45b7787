"""One sweep against one server: find out how it wants to be asked, warm it, measure, keep each repeat at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from kitctl.bench.answers import Record, records_of
from kitctl.bench.counters import Counters, counted_between, read_counters
from kitctl.bench.gpu_watch import gpu_of
from kitctl.bench.load import Load, LoadRun, Target
from kitctl.bench.measure import MOST_DETAIL, Asked, Health, Repeat, measure
from kitctl.bench.prompts import PromptSet, seed_of
from kitctl.bench.statistics import percentile
from kitctl.bench.workload import Endpoint, Spec, Step, load_for, warm_up_for
from kitctl.edge.clock import monotonic_s, sleep_s
from kitctl.edge.gpu_samples import GpuSampler
from kitctl.edge.http_calls import flush_cache, metrics_text
from kitctl.edge.load_client import run_load
from kitctl.errors import Exit, KitError

MOST_RAMP_S = 30.0
COUNTER_TRIES = 4
TELL_EVERY_S = 10.0
_OTHER_ENDPOINT = {"http-501"}


@dataclass(frozen=True, kw_only=True)
class Session:
    """A sweep's fixed surroundings. ``seed`` is the run's; every step derives its own."""

    spec: Spec
    target: Target
    dataset: PromptSet
    seed: int
    say: Callable[[str], None]


def find_endpoint(session: Session, choices: Iterable[Endpoint]) -> tuple[Endpoint, Record]:
    """The first endpoint that takes a short request, and its answer, good or failed.

    A server that is silent is not asked again: that would be no other at another endpoint.

    Raises KitError ``no-answer`` (exit 10) when the server refuses the request at every endpoint (4xx).
    """
    seen: list[str] = []
    failed: tuple[Endpoint, Record] | None = None
    for endpoint in choices:
        for attempt in range(3):
            record = _ask_once(session, endpoint, attempt)
            if record.error is None:
                return endpoint, record
            seen.append(f"{endpoint}: {record.error} {record.detail[:MOST_DETAIL]}".rstrip())
            if record.error == "timeout":
                return failed or (endpoint, record)
            if record.error.startswith("http-4") or record.error in _OTHER_ENDPOINT:
                break
            failed = failed or (endpoint, record)
    if failed is not None:
        return failed
    raise KitError(
        "no-answer",
        "the server answers no generation request",
        evidence=tuple(dict.fromkeys(seen)),
        remedy="check --model, --endpoint, --input-tokens and KITCTL_API_KEY against the server's own log",
        exit_code=Exit.UNREACHABLE,
    )


def _ask_once(session: Session, endpoint: Endpoint, attempt: int) -> Record:
    spec = msgspec.structs.replace(session.spec, endpoint=endpoint)
    step = Step(concurrency=1)
    load = warm_up_for(
        spec, step, session.target, session.dataset, seed=seed_of(session.seed, "probe", endpoint, attempt)
    )
    run = run_load(session.target, load, timeout_s=spec.timeout_s)
    return records_of(run, session.target.api_key)[0]


def warm_up(session: Session, step: Step) -> float:
    """Send one short request a stream; returns the ramp in seconds: about the length of one whole request."""
    seed = seed_of(session.seed, "warm", step.concurrency, step.request_rate)
    load = warm_up_for(session.spec, step, session.target, session.dataset, seed=seed)
    run = run_load(session.target, load, timeout_s=session.spec.timeout_s)
    good = [record for record in records_of(run, session.target.api_key) if record.error is None]
    return _ramp_s(session.spec, good)


def _ramp_s(spec: Spec, good: list[Record]) -> float:
    if spec.ramp_s is not None:
        return spec.ramp_s
    lengths = sorted(
        (record.ttft_ms or 0.0) + (record.tpot_ms or 0.0) * spec.output_tokens
        if record.tpot_ms
        else record.e2e_ms
        for record in good
    )
    return min(MOST_RAMP_S, percentile(lengths, 0.5) / 1e3) if lengths else 0.0


def measure_step(session: Session, step: Step, *, ramp_s: float, attempt: int = 0) -> Repeat:
    """One repeat of one point, with the server's counters and the GPUs' state around it.

    ``attempt``: how often this repeat was taken before and thrown away.
    """
    spec, target = session.spec, session.target
    seed = seed_of(session.seed, step.concurrency, step.request_rate, step.repeat, attempt)
    load = load_for(spec, step, target, session.dataset, seed=seed, ramp_s=ramp_s)
    flushed = flush_cache(target) if spec.flush else None
    before = _counters(target)
    sampler = GpuSampler(local=target.host in ("127.0.0.1", "localhost", "::1"))
    run = run_load(target, load, timeout_s=spec.timeout_s, progress=_progress(session, step, sampler))
    records = records_of(run, session.target.api_key)
    asked = Asked(
        concurrency=step.concurrency,
        request_rate=step.request_rate,
        repeat=step.repeat,
        seed=seed,
        output_tokens=spec.output_tokens if spec.ignore_eos else None,
    )
    repeat = measure(records, asked)
    return msgspec.structs.replace(
        repeat,
        health=_health(run, load, repeat),
        server=_settled(target, before, repeat.output_tokens),
        flushed=flushed,
        gpu=gpu_of(sampler.samples),
        retakes=attempt,
    )


def _progress(session: Session, step: Step, sampler: GpuSampler) -> Callable[[int, int], None]:
    begun_s = told_s = monotonic_s()

    def tell(done: int, of: int) -> None:
        nonlocal told_s
        sampler.sample()
        now_s = monotonic_s()
        if now_s - told_s >= TELL_EVERY_S and done:
            told_s = now_s
            left_s = (now_s - begun_s) / done * (of - done)
            session.say(
                f"  {step.name}: {done} of {of} requests, this repeat needs about {left_s:.0f} s more"
            )

    return tell


def _counters(target: Target) -> Counters | None:
    text = metrics_text(target)
    return read_counters(text) if text is not None else None


def _settled(target: Target, before: Counters | None, tokens: int) -> Counters | None:
    """What the server counted; read again when it is behind, since engines count a request after its answer."""
    if before is None:
        return None
    counted: Counters | None = None
    for attempt in range(COUNTER_TRIES):
        after = _counters(target)
        counted = counted_between(before, after) if after is not None else None
        if (
            counted is None
            or counted.generation_tokens is None
            or counted.generation_tokens >= 0.999 * tokens
        ):
            break
        if attempt + 1 < COUNTER_TRIES:
            sleep_s(0.5)
    return counted


def _health(run: LoadRun, load: Load, repeat: Repeat) -> Health:
    health = run.health
    return Health(
        processes=load.processes,
        cpu_share=health.cpu_share,
        cpu_us_per_chunk=health.cpu_s * 1e6 / repeat.chunks if repeat.chunks else None,
        lag_mean_ms=health.lag_mean_ms,
        lag_p99_ms=health.lag_p99_ms,
        lag_max_ms=health.lag_max_ms,
        reconnects=health.reconnects,
    )
