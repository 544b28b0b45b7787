"""What does a result of SGLang's own client say? JSON Lines of ``sglang.benchmark.serving`` into points.

Field names: SGLang 0.5.16, benchmark/serving.py. Its lines hold the whole server_info with API keys in the clear, of
which an allow-list is kept; its OpenAI backends fall back to the length that was asked for when the server sends no
usage, which the retokenised count in the same line shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kitctl.bench.figures import wrong_import
from kitctl.bench.points import Point
from kitctl.bench.results import Head, ResultFile, pick_settings
from kitctl.bench.statistics import Spread, interval_of, mean
from kitctl.bench.validity import width_notes
from kitctl.bench.workload import Spec, Step, count_for
from kitctl.errors import Exit, KitError
from kitctl.kit.json_text import parse_json

RETOKENISED_LIMIT = 0.02


def bench_serving_argv(spec: Spec, *, concurrency: int, port: int, seed: int) -> tuple[str, ...]:
    """The arguments that make bench_serving send a like load: native backend, random ids of exact length."""
    count = count_for(spec, Step(concurrency=concurrency))
    pairs = {
        "--backend": "sglang",
        "--base-url": f"http://127.0.0.1:{port}",
        "--model": spec.model,
        "--dataset-name": "random-ids",
        "--random-input-len": spec.input_tokens or 0,
        "--random-output-len": spec.output_tokens,
        "--random-range-ratio": 1,
        "--num-prompts": count,
        "--max-concurrency": concurrency,
        "--seed": seed % 2**31,
    }
    return (*(str(word) for pair in pairs.items() for word in pair), "--tokenize-prompt", "--flush-cache")


def is_bench_serving(text: str) -> bool:
    """Whether the first line is one of bench_serving's."""
    first = text.lstrip().split("\n", 1)[0]
    return '"output_throughput"' in first and '"backend"' in first


def read_bench_serving(name: str, text: str, *, allowed: Sequence[str]) -> ResultFile:
    """All lines as one result; lines of the same concurrency are repeats. Raises KitError ``bad-result`` (exit 2)."""
    try:
        entries: list[dict[str, Any]] = [
            _entry(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()
        ]
        groups: dict[tuple[int | None, float | None], list[dict[str, Any]]] = {}
        for entry in entries:
            groups.setdefault(_load(entry), []).append(entry)
        points = tuple(_point(load, group) for load, group in groups.items())
    except (ValueError, KeyError, TypeError, AttributeError) as broken:
        raise KitError(
            "bad-result",
            f"{name} is not a result of bench_serving: {broken if type(broken) is ValueError else repr(broken)}",
            remedy="give the file that --output-file of sglang.benchmark.serving wrote",
            exit_code=Exit.USAGE,
        ) from broken
    server = entries[0].get("server_info")
    head = Head(
        label=str(entries[0].get("tag") or name.rsplit("/", 1)[-1].removesuffix(".jsonl")),
        kind="imported",
        server=pick_settings(server if isinstance(server, dict) else None, allowed),
        source=f"sglang.benchmark.serving, backend {entries[0]['backend']}, {entries[0].get('dataset_name')}",
    )
    order = sorted(points, key=lambda point: (point.concurrency is None, point.concurrency or 0))
    return ResultFile(head=head, points=tuple(order))


def _entry(number: int, line: str) -> dict[str, Any]:
    """One line. Raises ValueError that names the line when it holds no object, or a figure that cannot be."""
    entry = parse_json(line)
    wrong = wrong_import(entry) if isinstance(entry, dict) else "it is no object"
    if wrong:
        raise ValueError(f"line {number}: {wrong}")
    return dict(entry)


def _load(entry: dict[str, Any]) -> tuple[int | None, float | None]:
    """Concurrency of a closed loop, request rate of an open one."""
    if entry.get("max_concurrency") is not None:
        return int(entry["max_concurrency"]), None
    rate = float(entry["request_rate"])
    return (int(entry["completed"]), None) if rate == float("inf") else (None, rate)


def _point(load: tuple[int | None, float | None], entries: list[dict[str, Any]]) -> Point:
    rates = [float(entry["output_throughput"]) for entry in entries]
    reasons = tuple(dict.fromkeys(reason for entry in entries for reason in _reasons(entry)))
    found = interval_of([[rate] for rate in rates])
    accept = [float(e["accept_length"]) for e in entries if e.get("accept_length") is not None]
    notes = ("accept length is the server's average since its start",) if accept else ()
    return Point(
        concurrency=load[0],
        request_rate=load[1],
        output_tokens_per_s=mean(rates),
        output_tokens_per_s_interval=found,
        repeat_output_tokens_per_s=tuple(rates),
        ttft_ms=_spread(entries, "ttft"),
        tpot_ms=_spread(entries, "tpot"),
        itl_ms=_spread(entries, "itl"),
        e2e_ms=_spread(entries, "e2e_latency"),
        requests=sum(int(entry["completed"]) for entry in entries),
        completed=sum(int(entry["completed"]) for entry in entries),
        errors=0,
        valid=not reasons,
        invalid_reasons=reasons,
        notes=(
            *width_notes(len(entries), rate=mean(rates), interval=found),
            *notes,
            "failed requests are not told by bench_serving",
        ),
        repeats=len(entries),
        total_tokens_per_s=mean([float(entry["total_throughput"]) for entry in entries]),
        requests_per_s=mean([float(entry["request_throughput"]) for entry in entries]),
        whole_run_output_tokens_per_s=mean(rates),
        accept_length=mean(accept) if accept else None,
    )


def _reasons(entry: dict[str, Any]) -> list[str]:
    counted, again = entry["total_output_tokens"], entry.get("total_output_tokens_retokenized")
    exact = entry["backend"] in ("sglang", "sglang-native")
    if exact or not again or abs(counted - again) <= RETOKENISED_LIMIT * again:
        return []
    return [
        f"tokens-assumed: {counted} tokens counted, {again} when tokenised again; backend {entry['backend']}"
    ]


def _spread(entries: list[dict[str, Any]], name: str) -> Spread | None:
    """Means over repeats of each statistic."""
    names = {"mean": "mean", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99"}
    values = {
        ours: [float(e[f"{theirs}_{name}_ms"]) for e in entries if f"{theirs}_{name}_ms" in e]
        for ours, theirs in names.items()
    }
    if not all(values.values()):
        return None
    return Spread(**{ours: mean(found) for ours, found in values.items()})
