"""Two clients on one engine at the same time: kitctl's and the engine's own, the same load from each.

The engine gives every running request the same share of its steps, so that each client's throughput is the same
whatever the machine does meanwhile; one after the other would compare the machine with itself. kitctl's load begins
first and outlasts the other (which imports for a while), and its tokens of that time are counted: the middle 80 % of
it, since the other's end is known to about half a second only.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec

from kitctl.bench.answers import Record, read_records
from kitctl.bench.bench_serving import bench_serving_argv
from kitctl.bench.event_log import read_logs
from kitctl.bench.prompts import PromptSet
from kitctl.bench.workload import Spec, Step, load_for
from kitctl.edge.load_client import run_load, target_of

LONGER = 2.6
"""kitctl's requests for each of the other client's."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Output tokens a second that each client saw; ``seconds`` is how long the engine's client measured."""

    kitctl: float
    engine_client: float
    seconds: float

    @property
    def ratio(self) -> float:
        return self.kitctl / self.engine_client


def take_turn(
    url: str, spec: Spec, *, streams: int, seed: int, port: int, run_theirs: Callable[[tuple[str, ...]], str]
) -> Turn:
    """Both clients with ``streams`` streams each; ``spec`` is the other's load, ``run_theirs`` gives its JSON line."""
    argv = bench_serving_argv(spec, concurrency=streams, port=port, seed=seed)
    with ThreadPoolExecutor(1) as beside:
        running = beside.submit(_ours, url, spec, streams, seed)
        found = json.loads(run_theirs(argv))
        end_ns = time.monotonic_ns()
        records = running.result()
    length_ns = found["duration"] * 1e9
    seen = _rate_between(records, end_ns - 0.9 * length_ns, end_ns - 0.1 * length_ns)
    return Turn(kitctl=seen, engine_client=float(found["output_throughput"]), seconds=found["duration"])


def _ours(url: str, spec: Spec, streams: int, seed: int) -> list[Record]:
    """kitctl's load: every request with the moments at which its tokens came."""
    target = target_of(url)
    long = msgspec.structs.replace(spec, requests_per_stream=int(LONGER * spec.requests_per_stream))
    none = PromptSet(name="random", sha256="", prompts=())
    load = load_for(long, Step(concurrency=streams), target, none, seed=seed, ramp_s=0.0)
    return list(read_records(read_logs(run_load(target, load, timeout_s=60).logs)))


def _rate_between(records: list[Record], begin_ns: float, end_ns: float) -> float:
    """Tokens a second that came in this time, which the records must cover."""
    assert min(record.sent_ns for record in records) < begin_ns
    assert max(record.end_ns for record in records) > end_ns, "raise LONGER: the other client outlasted it"
    steps = (step for record in records for step in record.steps)
    return sum(tokens for at_ns, tokens in steps if begin_ns <= at_ns < end_ns) / (end_ns - begin_ns) * 1e9
