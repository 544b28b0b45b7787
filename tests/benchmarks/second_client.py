"""Do ``kitctl bench`` and the engine's own client see the same throughput of the real CPU engine?

``python tests/benchmarks/second_client.py``: the engine has one core to itself, so that neither client takes from it
what it measures. Each turn is one ``bench --with sglang``: both send the same number of requests of equal lengths at
once, and whole runs are compared, ramp and tail counted in. Ends with 1 when the median of the turns' ratios is more
than 2 % from 1.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from kitctl_process import KitUser, new_user

TURNS, BOUND = 7, 0.02
LOAD = ("--concurrency", "4", "--requests", "40", "--repeats", "1", "--ramp-s", "0", "--output-tokens", "64")


def ratio(user: KitUser, folder: Path, turn: int) -> float:
    """Tokens a second by kitctl over those by bench_serving."""
    file = folder / f"{turn}.jsonl"
    words = ("bench", "cpu-demo", "--name", user.name, *LOAD, "--with", "sglang", "-o", str(file))
    done = user.run(*words, timeout_s=600)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    ours, theirs = (p["whole_run_output_tokens_per_s"] for p in lines if "whole_run_output_tokens_per_s" in p)
    print(
        f"turn {turn}: kitctl {ours:.1f}, bench_serving {theirs:.1f} tok/s, ratio {ours / theirs:.4f}",
        flush=True,
    )
    return float(ours / theirs)


def main() -> int:
    with tempfile.TemporaryDirectory() as place:
        user = new_user(Path(place))
        up = user.run(*user.up("--timeout", "600"), timeout_s=900)
        assert up.returncode == 0, up.stderr
        try:
            container = f"kitctl-cpu-demo--{user.name}-engine-1"
            subprocess.run(
                ["docker", "update", "--cpuset-cpus", "0", container], check=True, capture_output=True
            )
            ratios = [ratio(user, Path(place), turn) for turn in range(TURNS)]
        finally:
            user.run("down", "cpu-demo", "--name", user.name, timeout_s=120)
    middle = statistics.median(ratios)
    print(f"median of {TURNS} turns: {middle:.4f} (bound {BOUND:.0%})")
    return int(abs(middle - 1) > BOUND)


if __name__ == "__main__":
    raise SystemExit(main())
