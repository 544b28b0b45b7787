"""A second opinion on a sweep: the engine's own client, in a container of the engine's own image."""

from __future__ import annotations

import tomllib
from typing import Any

import msgspec

from kitctl.bench.bench_serving import bench_serving_argv, read_bench_serving
from kitctl.bench.points import Point
from kitctl.bench.prompts import seed_of
from kitctl.bench.results import line_of
from kitctl.bench.tables import agreement_line
from kitctl.commands.bench_sweep import Sweep
from kitctl.commands.server_choice import Server
from kitctl.edge.package_data import package_text
from kitctl.edge.result_files import append_lines
from kitctl.edge.second_opinion import run_bench_serving
from kitctl.errors import Exit, KitError
from kitctl.result import Context

TIMEOUT_S = 3600.0


def require_stack(server: Server, dataset: str) -> None:
    """Raise KitError ``no-second-opinion`` (exit 2) where the engine's client cannot run the same load."""
    if server.record is not None and server.record.get("container_id") and dataset == "random":
        return
    raise KitError(
        "no-second-opinion",
        "the engine's own client runs beside a stack that kitctl brought up, on random prompts",
        evidence=(f"server: {server.label}", f"prompts: {dataset}"),
        remedy="kitctl bench STACK --with sglang, without --dataset",
        exit_code=Exit.USAGE,
    )


def second_opinion(
    server: Server, sweep: Sweep, points: tuple[Point, ...], path: str, context: Context
) -> tuple[str, ...]:
    """Measure every concurrency again with bench_serving, keep its result without secrets, say how far they agree."""
    record: dict[str, Any] = server.record or {}
    allowed = tomllib.loads(package_text("bench_settings.toml"))["server_info"]
    texts = []
    for point in points:
        if point.concurrency is None:
            continue
        context.say(f"C={point.concurrency}: the engine's own client")
        arguments = bench_serving_argv(
            sweep.spec,
            concurrency=point.concurrency,
            port=int(record["plan"]["published"]["container_port"]),
            seed=seed_of(sweep.seed, "second", point.concurrency),
        )
        texts.append(
            run_bench_serving(
                str(record["container_id"]),
                str(record["image_id"]),
                arguments,
                api_key=server.target.api_key,
                timeout_s=TIMEOUT_S,
            )
        )
    result = read_bench_serving("bench_serving", "".join(texts), allowed=allowed)
    head = msgspec.structs.replace(result.head, label=f"{sweep.label} by bench_serving")
    append_lines(path, [line_of(head), *(line_of(point) for point in result.points)])
    return tuple(agreement_line(point, result) for point in points if point.concurrency is not None)
