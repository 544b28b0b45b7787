"""Do kitctl's load client and the engine's own see the same throughput of the real CPU engine?

``python tests/benchmarks/second_client.py``: both load the same engine at the same time (side_by_side.py), two streams
each, requests of equal length at the native endpoint. Ends with 1 when the median ratio is more than 2 % from 1.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from kitctl_process import KitUser, docker, new_user
from side_by_side import take_turn

from kitctl.bench.workload import Endpoint, Spec
from kitctl.edge.second_opinion import run_bench_serving

TURNS, BOUND, STREAMS = 5, 0.02, 2
SPEC = Spec(
    model="demo", endpoint=Endpoint.GENERATE, dataset="random", output_tokens=64, requests_per_stream=100,
    token_low=100, token_high=500,
)  # fmt: skip


def measure(user: KitUser) -> list[float]:
    """All turns against one engine: kitctl's tokens a second over those of the engine's own client."""
    up = user.run(*user.up("--timeout", "600"), timeout_s=900)
    assert up.returncode == 0, up.stderr
    container = docker("ps", "-q", "--no-trunc", "--filter", f"name={user.name}-engine")
    image = docker("inspect", "--format", "{{.Image}}", container)

    def run_theirs(argv: tuple[str, ...]) -> str:
        return run_bench_serving(container, image, argv, api_key=None, timeout_s=300)

    ratios = []
    for seed in range(TURNS):
        url = f"http://127.0.0.1:{user.port}"
        turn = take_turn(url, SPEC, streams=STREAMS, seed=seed, port=30000, run_theirs=run_theirs)
        print(f"turn {seed}: {turn}, ratio {turn.ratio:.4f}", flush=True)
        ratios.append(turn.ratio)
    return ratios


def main() -> int:
    with tempfile.TemporaryDirectory() as place, new_user(Path(place)) as user:
        ratios = measure(user)
    middle = statistics.median(ratios)
    print(f"median of {TURNS} turns: {middle:.4f} (bound {BOUND:.0%})")
    return int(abs(middle - 1) > BOUND)


if __name__ == "__main__":
    raise SystemExit(main())
