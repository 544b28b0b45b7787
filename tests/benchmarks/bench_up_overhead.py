"""What does ``kitctl up`` cost over plain compose, and ``kitctl --help`` over Python itself?

Both by turns in one run, with the stub engine, image and model there: ``python tests/benchmarks/bench_up_overhead.py``.
Ends with 1 when a median is above its bound: up at most 1.0 s more than ``docker compose up -d`` of the rendered
folder plus polling until it has answered one chat; ``--help`` at most twice ``python -c pass`` plus 60 ms.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from kitctl_process import KitUser, new_user
from stub_engine.image import stub_image

UP_TURNS, HELP_TURNS = 5, 15
UP_BOUND_S, HELP_FACTOR, HELP_BOUND_S = 1.0, 2.0, 0.060
POLL_S = 0.05


def seconds(work: Callable[[], None]) -> float:
    begun_s = time.perf_counter()
    work()
    return time.perf_counter() - begun_s


def kitctl_up(user: KitUser, words: tuple[str, ...]) -> float:
    def work() -> None:
        done = user.run(*user.up(*words))
        assert done.returncode == 0, done.stderr + done.stdout

    took_s = seconds(work)
    assert user.run("down", "cpu-demo", "--name", user.name).returncode == 0
    return took_s


def plain_up(user: KitUser, folder: Path) -> float:
    def work() -> None:
        subprocess.run(
            ["docker", "compose", "up", "-d"], cwd=folder, env=user.env, capture_output=True, check=True
        )
        while not has_answered(f"http://127.0.0.1:{user.port}"):
            time.sleep(POLL_S)

    took_s = seconds(work)
    subprocess.run(["docker", "compose", "down"], cwd=folder, env=user.env, capture_output=True, check=True)
    return took_s


def has_answered(url: str) -> bool:
    asked = {"model": "demo", "messages": [{"role": "user", "content": "Hello"}]}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", json.dumps(asked).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(f"{url}/health_generate", timeout=5):
            pass
        with urllib.request.urlopen(request, timeout=5) as reply:
            return bool(json.loads(reply.read())["choices"])
    except OSError:
        return False


def process(user: KitUser, *argv: str) -> float:
    return seconds(lambda: subprocess.run(argv, env=user.env, capture_output=True, check=True) and None)


def shown(name: str, values: list[float]) -> str:
    return f"{name:24} median {statistics.median(values):7.3f} s   {' '.join(f'{value:.3f}' for value in values)}"


def main() -> int:
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    image = stub_image()
    ups: list[float] = []
    plains: list[float] = []
    with tempfile.TemporaryDirectory() as home, new_user(Path(home)) as user:
        words, folder = ("--image", image), Path(home) / "rendered"
        kitctl_up(user, words)
        names = ("--name", user.name, "--port", str(user.port), "-o", str(folder))
        done = user.run("render", "cpu-demo", *names, *words)
        assert done.returncode == 0, done.stderr
        for _ in range(UP_TURNS):
            plains.append(plain_up(user, folder))
            ups.append(kitctl_up(user, words))
        helps, passes = [], []
        for _ in range(HELP_TURNS):
            passes.append(process(user, sys.executable, "-c", "pass"))
            helps.append(process(user, str(Path(sys.executable).parent / "kitctl"), "--help"))
    more_s = statistics.median(ups) - statistics.median(plains)
    help_bound_s = HELP_FACTOR * statistics.median(passes) + HELP_BOUND_S
    for name, values in (
        ("docker compose + polling", plains), ("kitctl up", ups), ("python -c pass", passes), ("kitctl --help", helps)
    ):  # fmt: skip
        print(shown(name, values))
    print(f"kitctl up takes {more_s:+.3f} s over compose; bound {UP_BOUND_S} s")
    print(f"kitctl --help takes {statistics.median(helps):.3f} s; bound {help_bound_s:.3f} s")
    return int(more_s > UP_BOUND_S or statistics.median(helps) > help_bound_s)


if __name__ == "__main__":
    sys.exit(main())
