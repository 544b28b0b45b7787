"""Results with planted figures, as kitctl bench would have written them."""

from typing import Any

from kitctl.bench.counters import Counters
from kitctl.bench.measure import Health, Repeat, StreamRate
from kitctl.bench.points import Point
from kitctl.bench.results import Head, ResultFile
from kitctl.bench.statistics import Spread

CALM = Health(processes=1, cpu_share=0.2, cpu_us_per_chunk=20, lag_mean_ms=0.1, lag_p99_ms=1, lag_max_ms=2)
GOOD = Repeat(
    concurrency=8, request_rate=None, repeat=0, seed=1, requests=40, errors=0, error_kinds={}, stops={"length": 40},
    stopped_early=0, models={"demo": 40}, unknown_tokens=0, zero_tokens=0, not_streamed=0, window_s=10,
    window_completed=24, streams=(StreamRate(output_tokens=100, prompt_tokens=100, completed=3, seconds=1),),
    streams_wanted=8, duration_s=12, output_tokens=4000, prompt_tokens=4000, cached_tokens=0, answered=40,
    ttft_ms=(100.0,) * 24, tpot_ms=(10.0,) * 24, e2e_ms=(1000.0,) * 24, lengths=(100,) * 24, itl_bins={}, gap_bins={},
    chunks=4000, health=CALM, server=Counters(generation_tokens=4000, prompt_tokens=4000, cached_tokens=0),
)  # fmt: skip


def spread(mean: float) -> Spread:
    return Spread(mean=mean, p50=mean * 0.95, p90=mean * 1.3, p95=mean * 1.5, p99=mean * 2, max=mean * 3)


def planted_point(concurrency: int, rate: float | None, *, error: float = 0.01, **more: Any) -> Point:
    reasons = more.pop("invalid_reasons", ())
    return Point(
        concurrency=concurrency,
        output_tokens_per_s=rate,
        output_tokens_per_s_interval=(rate * (1 - error), rate * (1 + error)) if rate is not None else None,
        ttft_ms=spread(80 + 3.5 * concurrency),
        tpot_ms=spread(1e3 * concurrency / rate) if rate else None,
        tpot_ms_interval=None,
        e2e_ms=spread(9000),
        requests=concurrency * 15,
        errors=0,
        valid=not reasons,
        invalid_reasons=reasons,
        **more,
    )


def planted_result(label: str, rates: dict[int, float], *, error: float = 0.01, **head: Any) -> ResultFile:
    points = tuple(planted_point(c, rate, error=error) for c, rate in rates.items())
    return ResultFile(head=Head(label=label, **head), points=points)
