"""Results with planted figures, as kitctl bench would have written them."""

from typing import Any

from kitctl.bench.points import Point
from kitctl.bench.results import Head, ResultFile
from kitctl.bench.statistics import Spread


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
