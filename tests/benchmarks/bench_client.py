"""How far do load clients distort what they measure, and what does a chunk cost them? Run by hand, machine idle.

    PYTHONPATH=tests python tests/benchmarks/bench_client.py [--streams 64,256] [--aiperf PATH]
        [--sglang-image IMAGE --model-dir DIR] [--vllm PYTHON endpoint_request_func.py]

A server of exactly known rate (two processes, time to first token 200 ms, then 30 chunks/s) is measured by each client
in a closed loop of 2 requests a stream, 150 tokens each, all started at once. Whole-run throughput is compared with
what the server's own stamps give, the mean time to first token with the server's; CPU is that of the client's whole
process tree, with the reading of its log, less that of a run with almost no tokens. Server and clients run ahead of
other work (priority -10, as root). Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rateserver import Behaviour, Running, rate_server

from kitctl.bench.answers import read_records
from kitctl.bench.event_log import read_logs
from kitctl.bench.load import Load
from kitctl.bench.prompts import Prompt
from kitctl.bench.workload import Endpoint, Spec, request_bytes
from kitctl.edge.load_client import run_load, target_of

HOW = Behaviour(ttft_ms=200, step_ms=1e3 / 30)
TOKENS = 150
ROUNDS = 2


class Seen(NamedTuple):
    """What a client reports, and the CPU seconds that it took."""

    rate: float
    ttft_ms: float
    cpu_s: float


Client = Callable[[Running, int, int], Seen]


def children_s() -> float:
    """CPU seconds of all processes that were started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def own(server: Running, streams: int, tokens: int) -> Seen:
    """kitctl's client: tokens per second over the whole run, mean time to first token in ms."""
    target = target_of(server.url)
    spec = Spec(model="demo", endpoint=Endpoint.COMPLETIONS, dataset="random", output_tokens=tokens)
    request = request_bytes(spec, target, Prompt(id="1", ids=tuple(range(1000, 1128))))
    load = Load(requests=(request,) * (streams * ROUNDS), streams=streams, starts_s=(0.0,) * streams)
    run = run_load(target, load, timeout_s=60)
    reading_s = time.process_time()
    records = read_records(read_logs(run.logs))
    reading_s = time.process_time() - reading_s
    span_s = (max(r.end_ns for r in records) - min(r.begun_ns for r in records)) / 1e9
    total = sum(record.output_tokens or 0 for record in records)
    ttft_ms = statistics.mean(record.ttft_ms or 0.0 for record in records)
    return Seen(total / span_s, ttft_ms, run.health.cpu_s + reading_s)


def bench_serving(image: str, model_dir: str) -> Client:
    """SGLang's own client, native backend, in a container with the host's network."""

    def run(server: Running, streams: int, tokens: int) -> Seen:
        script = (
            "mkdir -p /tmp/stub && echo 'def load_dataset(*a, **k): raise RuntimeError' > /tmp/stub/datasets.py; "
            'PYTHONPATH=/tmp/stub nice -n -10 python3 -m sglang.benchmark.serving "$@" >&2 && times && cat /tmp/r.jsonl'
        )
        words = [
            "--backend", "sglang", "--base-url", server.url, "--model", "demo", "--tokenizer", "/model",
            "--dataset-name", "random-ids", "--random-input-len", "128", "--random-output-len", str(tokens),
            "--random-range-ratio", "1", "--num-prompts", str(streams * ROUNDS), "--max-concurrency", str(streams),
            "--tokenize-prompt", "--output-file", "/tmp/r.jsonl", "--warmup-requests", "1",
        ]  # fmt: skip
        argv = ["docker", "run", "--rm", "--network", "host", "--cap-add", "SYS_NICE", "--user", "0",
                "-v", f"{model_dir}:/model:ro", "-e", "HF_HUB_OFFLINE=1",
                "--entrypoint", "sh", image, "-c", script, "bench", *words]  # fmt: skip
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        _, children, result = done.stdout.split("\n", 2)
        cpu_s = sum(60 * float(m) + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s", children))
        found = json.loads(result)
        return Seen(found["output_throughput"], found["mean_ttft_ms"], cpu_s)

    return run


def aiperf(program: str, model_dir: str) -> Client:
    """NVIDIA aiperf, chat endpoint, streaming."""

    def run(server: Running, streams: int, tokens: int) -> Seen:
        with tempfile.TemporaryDirectory() as folder:
            argv = [
                "nice", "-n", "-10", program, "profile",
                "--model", "demo", "--url", server.url, "--endpoint-type", "chat", "--streaming",
                "--tokenizer", model_dir, "--concurrency", str(streams), "--request-count", str(streams * ROUNDS),
                "--synthetic-input-tokens-mean", "128", "--output-tokens-mean", str(tokens),
                "--extra-inputs", f"max_tokens:{tokens}", "--artifact-dir", folder, "--ui", "none",
            ]  # fmt: skip
            before_s = children_s()
            subprocess.run(argv, capture_output=True, text=True, check=True)
            cpu_s = children_s() - before_s
            (path,) = Path(folder).rglob("profile_export_aiperf.json")
            found = json.loads(path.read_text())
        return Seen(found["request_throughput"]["avg"] * tokens, found["time_to_first_token"]["avg"], cpu_s)

    return run


def vllm(python: str, function: str) -> Client:
    """vLLM's request function, completions endpoint, under an interpreter that has aiohttp."""
    loop = Path(__file__).parent / "vllm_client.py"

    def run(server: Running, streams: int, tokens: int) -> Seen:
        counts = (str(streams), str(streams * ROUNDS), str(tokens))
        argv = ["nice", "-n", "-10", python, loop, function, server.url, *counts]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)
        return Seen(found["output_tokens_per_s"], found["ttft_ms"], found["cpu_s"])

    return run


def truth_of(server: Running, tokens: int) -> tuple[float, float]:
    """The same two figures by the server's own stamps, of requests of this length only."""
    rows = [row for row in server.truth() if row[3] == tokens]
    span_s = (max(last for *_, last, _ in rows) - min(arrived for arrived, *_ in rows)) / 1e9
    return len(rows) * tokens / span_s, statistics.mean(
        (first - arrived) / 1e6 for arrived, first, *_ in rows
    )


def measure(client: Client, streams: int) -> str:
    """One row: throughput and time to first token against the truth, marginal CPU of a chunk."""
    costs = []
    for tokens in (4, TOKENS):
        with rate_server(HOW, processes=2) as server:
            seen = client(server, streams, tokens)
            true_rate, true_ttft = truth_of(server, tokens)
        costs.append(seen.cpu_s)
    chunk_us = (costs[1] - costs[0]) * 1e6 / (streams * ROUNDS * (TOKENS - 4))
    return f"{seen.rate / true_rate - 1:+.1%} | {seen.ttft_ms:.0f} ({true_ttft:.0f}) | {chunk_us:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", default="64,256")
    parser.add_argument("--sglang-image")
    parser.add_argument("--aiperf")
    parser.add_argument("--vllm", nargs=2, metavar=("PYTHON", "FILE"))
    parser.add_argument("--model-dir", default="")
    args = parser.parse_args()
    clients: dict[str, Client] = {"kitctl": own}
    if args.sglang_image:
        clients["sglang.benchmark.serving, native"] = bench_serving(args.sglang_image, args.model_dir)
    if args.aiperf:
        clients["aiperf, chat"] = aiperf(args.aiperf, args.model_dir)
    if args.vllm:
        clients["vLLM's request function, completions"] = vllm(*args.vllm)
    print(f"load average before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    print("| client | streams | throughput against the truth | TTFT ms (truth) | CPU us a chunk |")
    print("|---|---:|---:|---:|---:|")
    for streams in map(int, args.streams.split(",")):
        for name, client in clients.items():
            print(f"| {name} | {streams} | {measure(client, streams)} |", flush=True)


if __name__ == "__main__":
    main()
