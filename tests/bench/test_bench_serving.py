"""Old results of SGLang's own client come in with the same figures and without its secrets."""

import json
from pathlib import Path

import pytest

from kitctl.bench.bench_serving import bench_serving_argv, is_bench_serving, read_bench_serving
from kitctl.bench.results import line_of
from kitctl.bench.workload import Endpoint, Spec
from kitctl.errors import KitError

CASES = Path(__file__).parent.parent / "cases" / "bench"
REAL = (CASES / "bench-serving-dflash-t1-c8.jsonl").read_text()


def test_real_result() -> None:
    found = read_bench_serving("x/run.jsonl", REAL, allowed=("version", "attention_backend"))
    (point,) = found.points
    entry = json.loads(REAL)
    assert (found.head.label, found.head.kind) == ("run", "imported")
    assert (point.concurrency, point.valid, point.requests) == (8, True, 64)
    assert point.output_tokens_per_s == entry["output_throughput"]
    assert point.ttft_ms is not None and point.tpot_ms is not None
    assert (point.ttft_ms.p50, point.ttft_ms.p99) == (entry["median_ttft_ms"], entry["p99_ttft_ms"])
    assert point.tpot_ms.mean == entry["mean_tpot_ms"]
    assert point.notes[0] == "accept length is the server's average since its start"


def test_api_key_of_its_server_info_is_dropped() -> None:
    assert "sk-must-not-be-kept" in REAL
    found = read_bench_serving("run.jsonl", REAL, allowed=("version", "attention_backend"))
    kept = line_of(found.head) + line_of(found.points[0])
    assert "sk-must-not-be-kept" not in kept
    assert found.head.server is not None and "attention_backend" in found.head.server


def test_lines_of_one_concurrency_are_repeats() -> None:
    entry = json.loads(REAL)
    lines = [json.dumps(entry | {"output_throughput": rate}) for rate in (100.0, 110.0, 90.0)]
    (point,) = read_bench_serving("x", "\n".join(lines), allowed=()).points
    assert (point.repeats, point.output_tokens_per_s) == (3, 100)
    assert point.output_tokens_per_s_interval is not None


def test_assumed_token_counts_are_refused() -> None:
    """The OpenAI backends reported 9,600 tokens where 3,200 were sent."""
    entry = json.loads(REAL) | {
        "backend": "sglang-oai", "total_output_tokens": 9600, "total_output_tokens_retokenized": 3200,
    }  # fmt: skip
    (point,) = read_bench_serving("x", json.dumps(entry), allowed=()).points
    assert point.invalid_reasons == (
        "tokens-assumed: 9600 tokens counted, 3200 when tokenised again; backend sglang-oai",
    )


def test_infinite_rate_is_understood() -> None:
    assert '"request_rate": Infinity' in REAL
    assert is_bench_serving(REAL)
    assert not is_bench_serving('{"schema":"kitctl.bench.run/1"}')


def test_arguments_ask_for_a_like_load() -> None:
    spec = Spec(model="m", endpoint=Endpoint.COMPLETIONS, dataset="random", input_tokens=64, output_tokens=32)
    argv = bench_serving_argv(spec, concurrency=8, port=30001, seed=2**40 + 5)
    pairs = dict(zip(argv[::2], argv[1::2], strict=False))
    assert (pairs["--num-prompts"], pairs["--max-concurrency"], pairs["--seed"]) == ("40", "8", "5")
    lengths = [pairs[f"--random-{name}"] for name in ("input-len", "output-len", "range-ratio")]
    assert lengths == ["64", "32", "1"]


def test_something_else() -> None:
    with pytest.raises(KitError, match="is not a result of bench_serving"):
        read_bench_serving("x", '{"backend": "sglang", "output_throughput": 1}', allowed=())
