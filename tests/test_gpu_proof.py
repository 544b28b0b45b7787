"""What ran on real GPUs holds what kitctl plans and reads: 1 and 2 H200, SGLang 0.5.16, driver 580.159.04.

The outputs are those of tests/gpu/prove.py on 2026-11-29; logs are thinned of progress bars, requests and decode lines.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from kitctl.edge.failure_book import failure_book
from kitctl.watch.diagnose import diagnose
from kitctl.watch.engine_log import LoadProgress, Phase, advance

CASES = Path(__file__).parent / "cases" / "gpu_proof"
GIB = 2**30
READY = ["one-gpu/dense", "one-gpu/dense-copy", "two-gpus/moe-nvlink", "two-gpus-again/moe-pcie"]


def read(name: str) -> Any:
    return json.loads((CASES / name).read_text())


def progress_of(case: str) -> LoadProgress:
    fatal, progress = failure_book().fatal, LoadProgress()
    for line in (CASES / f"{case}.log").read_text().splitlines():
        progress = advance(progress, line, fatal=fatal)
    return progress


@pytest.mark.parametrize("case", READY)
def test_a_served_case_is_read_to_its_end_without_a_fatal_line(case: str) -> None:
    progress = progress_of(case)
    assert (progress.phase, progress.first_fatal) == (Phase.READY, None)
    assert read(f"{case.split('/')[0]}/record.json")["cases"][case.split("/")[1]]["ready_s"] > 0


@pytest.mark.parametrize("case", [*READY, "one-gpu/kimi-copy-capped"])
def test_the_engine_allocated_the_tokens_that_were_planned(case: str) -> None:
    planned = read(f"{case}.plan.json")["memory"]["kv_tokens"]
    assert {pool.tokens for pool in progress_of(case).pools} == {planned}


def test_where_the_engine_would_overrun_the_plan_capped_its_tokens_and_both_pools_fitted() -> None:
    """DFLASH at tp 1: the engine budgets the drafter's KV at the target's cell size and would run out of memory."""
    memory = read("one-gpu/kimi-copy-capped.plan.json")["memory"]
    assert memory["kv_tokens"] == 9835352 < memory["kv_tokens_uncapped"] == 18213615
    pools = {pool.is_drafter: pool.size_gb for pool in progress_of("one-gpu/kimi-copy-capped").pools}
    per_token = memory["kv_bytes_per_token"]
    assert pools[False] == pytest.approx(9835352 * per_token["target"] / GIB, abs=0.02)
    assert pools[True] == pytest.approx(9835352 * per_token["drafter"] / GIB, abs=0.02)


def test_free_memory_after_the_pools_is_within_five_percent_of_the_plan() -> None:
    """The case that had the card to itself; the graphs, which came later, are what the plan still held back."""
    memory = read("one-gpu/kimi-copy-capped.plan.json")["memory"]
    taken = {part["name"]: part["bytes"] for part in memory["taken"]}
    graphs = sum(size for name, size in taken.items() if "graphs" in name)
    log = (CASES / "one-gpu" / "kimi-copy-capped.log").read_text()
    measured_gib = float(log.rsplit("Memory pool end. avail mem=", 1)[1].split(" ")[0])
    planned_gib = (memory["free_bytes"] + graphs) / GIB
    assert planned_gib == pytest.approx(measured_gib, abs=0.05 * memory["gpu_total_bytes"] / GIB)


def test_a_drafter_that_is_always_right_is_accepted_a_whole_block_a_step() -> None:
    points = read("one-gpu/dense-copy.accept-T0.json")["points"]
    assert [point["overall"]["accept_length"] for point in points] == [8.0, 8.0]
    assert read("one-gpu/dense-copy.generate-T0.json")["spec_accept_length"] == 8.0


def test_at_temperature_one_the_accept_length_follows_the_formula() -> None:
    """(1 - p^8) / (1 - p) = 4.138; the engine counts each request's first token, from the prefill, as well."""
    p = read("one-gpu/record.json")["laws"]["p_t1"]["dense"]
    predicted = (1 - p**8) / (1 - p)
    for point in read("one-gpu/dense-copy.accept-T1.json")["points"]:
        found = point["overall"]
        without_first = (found["tokens"] - found["requests"]) / found["verify_steps"]
        assert without_first == pytest.approx(predicted, abs=0.1)


@pytest.mark.parametrize(
    ("case", "code", "refused_by_plan"),
    [
        ("one-gpu/fail-badfc", "drafter-does-not-fit-target", "drafter-captured-width"),
        ("one-gpu/fail-badids", "drafter-does-not-fit-target", "drafter-layer-out-of-range"),
        ("one-gpu/fail-no-kv-memory", "mem-fraction-too-small", "memory-does-not-fit"),
        ("one-gpu-first/dense-copy", "drafter-does-not-fit-target", None),
        ("one-gpu-first/dense", "port-taken-host-network", None),
    ],
)
def test_a_failure_on_the_card_is_named_and_was_refused_beforehand_where_it_can_be_known(
    case: str, code: str, refused_by_plan: str | None
) -> None:
    found = diagnose((CASES / f"{case}.log").read_text(), failure_book())
    assert found[0].code == code
    if refused_by_plan is not None:
        assert refused_by_plan in read(f"{case}.plan.json")["findings"]


def test_an_index_out_of_range_on_the_card_is_not_blamed_on_the_drafter() -> None:
    """A client sent token ids beyond the vocabulary; the assertion's own line is the evidence."""
    found = diagnose((CASES / "micro" / "micro-dflash.log").read_text(), failure_book())
    assert found[0].code == "token-id-out-of-range"


def test_the_overlay_follows_the_links_and_nccl_the_overlay() -> None:
    nvlink = read("two-gpus/moe-nvlink.plan.json")
    assert (nvlink["overlays"], nvlink["why"]["overlay"]) == (
        ["nvlink", "no-multicast"],
        "the pair has NVLink (NV18)",
    )
    assert "via P2P/IPC" in (CASES / "two-gpus" / "moe-nvlink.log").read_text()
    pcie = read("two-gpus-again/moe-pcie.plan.json")
    assert (pcie["overlays"], "overlay-against-links" in pcie["findings"]) == (["pcie", "no-multicast"], True)
    assert "via SHM/direct/direct" in (CASES / "two-gpus-again" / "moe-pcie.log").read_text()


def test_a_second_start_captures_graphs_in_a_fraction_of_the_first() -> None:
    """Kernels compiled at the first start lie in the cache: prefill and decode graphs 60.9 s, then 11.6 s."""
    first = dict(read("two-gpus/record.json")["cases"]["moe-nvlink"]["phases"])
    second = dict(read("two-gpus-again/record.json")["cases"]["moe-pcie"]["phases"])
    assert (first["graphs"], second["graphs"]) == (60.86, 11.62)
