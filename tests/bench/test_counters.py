"""The engine's counters are read from real metrics text; acceptance comes from their difference."""

from pathlib import Path

from kitctl.bench.counters import Counters, counted_between, read_counters

CASES = Path(__file__).parent.parent / "cases" / "bench"


def test_real_metrics() -> None:
    found = read_counters((CASES / "metrics-dflash-after-t1.txt").read_text())
    assert found == Counters(
        generation_tokens=50560, prompt_tokens=50789, cached_tokens=18722, verify_calls=7276
    )


def test_difference_shows_the_run_and_not_the_average_since_start() -> None:
    """Since start the ratio is 6.95; between the readings, where T=1 ran, it is 4.16 (formula: 4.138)."""
    before = read_counters((CASES / "metrics-dflash-after-t0.txt").read_text())
    after = read_counters((CASES / "metrics-dflash-after-t1.txt").read_text())
    counted = counted_between(before, after)
    assert after.generation_tokens is not None and after.verify_calls is not None
    assert round(after.generation_tokens / after.verify_calls, 2) == 6.95
    assert counted.generation_tokens is not None and counted.verify_calls is not None
    assert round(counted.generation_tokens / counted.verify_calls, 2) == 4.16


def test_server_without_a_drafter_counts_no_verify_calls() -> None:
    assert read_counters((CASES / "metrics-ar.txt").read_text()).verify_calls is None


def test_labels_are_summed_and_other_engines_understood() -> None:
    text = "\n".join(
        [
            "# HELP x y",
            'vllm:generation_tokens_total{engine="0",name="a } b"} 10.0 1700000000',
            'vllm:generation_tokens_total{engine="1"} 5',
            "prompt_tokens_total 7",
            "other:cached_tokens_total NaN",
        ]
    )
    assert read_counters(text) == Counters(generation_tokens=15, prompt_tokens=7)


def test_restarted_server_gives_no_difference() -> None:
    before, after = Counters(generation_tokens=10), Counters(generation_tokens=3)
    assert counted_between(before, after) == Counters()
