"""Do kitctl's load client and the engine's own see the same throughput of the real CPU engine?

``python tests/benchmarks/second_client.py``: both load the same engine **at the same time**, two streams each, requests
of equal length at the native endpoint. The engine gives every running request one token a step, so that each client's
share is the same whatever the machine does meanwhile; on a machine of few cores one after the other would compare the
machine with itself. kitctl's load outlasts the other, and its tokens of that time are counted: the middle 80 % of it,
for the container's end tells it to half a second only. Ends with 1 when the median ratio is more than 2 % from 1.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
import msgspec
from kitctl_process import KitUser, docker, new_user

from kitctl.bench.answers import Record, read_records
from kitctl.bench.bench_serving import bench_serving_argv
from kitctl.bench.event_log import read_logs
from kitctl.bench.prompts import read_prompt_set
from kitctl.bench.workload import Endpoint, Spec, Step, load_for
from kitctl.edge.load_client import run_load, target_of
from kitctl.edge.package_data import package_text
from kitctl.edge.second_opinion import run_bench_serving

TURNS, BOUND = 5, 0.02
STREAMS, THEIR_REQUESTS, OUR_REQUESTS = 2, 100, 260
SPEC = Spec(
    model="demo", endpoint=Endpoint.GENERATE, dataset="random", output_tokens=64,
    requests_per_stream=THEIR_REQUESTS, token_low=100, token_high=500,
)  # fmt: skip


def ours(url: str, seed: int) -> list[Record]:
    """kitctl's load: every request with the moments at which its tokens came."""
    target = target_of(url)
    long = msgspec.structs.replace(SPEC, requests_per_stream=OUR_REQUESTS)
    kit = read_prompt_set("kit", package_text("prompts/kit.jsonl"))
    load = load_for(long, Step(concurrency=STREAMS), target, kit, seed=seed, ramp_s=0.0)
    return list(read_records(read_logs(run_load(target, load, timeout_s=60).logs)))


def rate_between(records: list[Record], begin_ns: float, end_ns: float) -> float:
    """Tokens a second that came in this time, which the records must cover."""
    assert min(record.sent_ns for record in records) < begin_ns
    assert max(record.end_ns for record in records) > end_ns, (
        "raise OUR_REQUESTS: the other client outlasted it"
    )
    steps = (step for record in records for step in record.steps)
    return sum(tokens for at_ns, tokens in steps if begin_ns <= at_ns < end_ns) / (end_ns - begin_ns) * 1e9


def turn(url: str, container: str, image: str, number: int) -> float:
    """kitctl's tokens a second over those of the engine's own client."""
    argv = bench_serving_argv(SPEC, concurrency=STREAMS, port=30000, seed=number)
    with ThreadPoolExecutor(1) as beside:
        running = beside.submit(ours, url, number)
        found = json.loads(run_bench_serving(container, image, argv, api_key=None, timeout_s=300))
        end_ns = time.monotonic_ns()
        records = running.result()
    margin_ns = found["duration"] * 1e8
    seen = rate_between(records, end_ns - found["duration"] * 1e9 + margin_ns, end_ns - margin_ns)
    theirs = float(found["output_throughput"])
    print(
        f"turn {number}: kitctl {seen:.1f}, bench_serving {theirs:.1f} tok/s, {seen / theirs:.4f}", flush=True
    )
    return seen / theirs


def measure(user: KitUser) -> list[float]:
    """All turns against one engine."""
    up = user.run(*user.up("--timeout", "600"), timeout_s=900)
    assert up.returncode == 0, up.stderr
    container = docker("ps", "-q", "--no-trunc", "--filter", f"name={user.name}-engine")
    image = docker("inspect", "--format", "{{.Image}}", container)
    return [turn(f"http://127.0.0.1:{user.port}", container, image, number) for number in range(TURNS)]


def main() -> int:
    with tempfile.TemporaryDirectory() as place, new_user(Path(place)) as user:
        ratios = measure(user)
    middle = statistics.median(ratios)
    print(f"median of {TURNS} turns: {middle:.4f} (bound {BOUND:.0%})")
    return int(abs(middle - 1) > BOUND)


if __name__ == "__main__":
    raise SystemExit(main())
