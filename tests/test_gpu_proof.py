"""What ran on real GPUs holds what kitctl plans and reads: 1 and 2 H200, SGLang 0.5.16, driver 580.159.04.

The outputs are those of tests/gpu/prove.py on 2026-11-29 and 30; logs are thinned of progress bars, requests and
decode lines.
"""

import json
import runpy
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kitctl.bench.results import read_results
from kitctl.campaign.state import fold
from kitctl.edge.failure_book import failure_book
from kitctl.edge.journal import load_journal
from kitctl.edge.kit_files import load_kit_texts
from kitctl.kit.catalog import KitTexts, resolve_stack
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


def test_a_stack_ran_in_a_container_that_got_its_gpu_by_cdi_and_kept_no_rights() -> None:
    shown = read("containers/inspect.json")
    (request,) = shown["HostConfig"]["DeviceRequests"]
    assert (request["Driver"], request["DeviceIDs"]) == ("cdi", ["nvidia.com/gpu=0"])
    assert (shown["HostConfig"]["CapDrop"], shown["Config"]["User"]) == (["ALL"], "10001:10001")
    assert "NVIDIA H200" in (CASES / "containers" / "container-nvidia-smi.txt").read_text()
    status = read("containers/status.json")
    assert (status["state"], status["drift"], status["serves"]) == ("ready", [], ["proof"])
    assert progress_of("containers/engine").phase is Phase.READY


def test_the_canary_measured_the_drafter_on_the_card_and_disliked_answers_that_repeat() -> None:
    """The test models can only repeat their last token, so the finding is right; the drafter is always right, too."""
    canary = read("containers/up.json")["canary"]
    assert canary["accept_length"] == pytest.approx(95 / 12, abs=0.01)
    assert {finding["code"] for finding in canary["findings"]} == {"canary-repeats", "canary-empty"}


def test_a_killed_scheduler_on_the_card_is_told_and_down_leaves_the_memory_free() -> None:
    killed = read("containers/status.killed.json")
    assert (killed["state"], killed["diagnoses"][0]["code"]) == ("crashed", "rank-killed")
    assert (CASES / "containers" / "memory-after-down.csv").read_text().strip() == "0, 0 MiB"


def test_what_the_first_container_compiled_the_second_found_in_its_cache_volume() -> None:
    starts = read("containers/phases.json")
    graphs = {
        name: phase["seconds"] for name in starts for phase in starts[name] if phase["name"] == "graphs"
    }
    assert graphs["first"] > 40 > 5 > graphs["second"]


def test_a_real_campaign_ended_with_every_work_done_and_a_whole_journal() -> None:
    """Autoregressive against DFLASH, graphs on and off, 6 minutes on one H200, by the code that users run."""
    state = fold(load_journal(str(CASES / "containers" / "campaign.journal.jsonl")).entries)
    assert (len(state.done), state.holes) == (30, {})
    report = (CASES / "containers" / "campaign.report.txt").read_text()
    assert "30 of 30 works done" in report
    assert report.count("parity: equal: 0 of 4 greedy answers differ") == 2


KIMI = ["kimi/kimi", "kimi/kimi-copy", "kimi-tp2/kimi-tp2-ep1", "kimi-tp2/kimi-tp2-ep2"]
KIMI_DFLASH = ["kimi-tp2/kimi-copy-tp2-ep1", "kimi-tp2/kimi-copy-tp2-ep2"]


@pytest.mark.parametrize("case", [*KIMI, *KIMI_DFLASH])
def test_the_small_kimi_served_as_planned(case: str) -> None:
    """MLA, 384 INT4 experts through Marlin, DFLASH: pools, KV bytes a token, accept length."""
    memory = read(f"{case}.plan.json")["memory"]
    progress = progress_of(case)
    assert (progress.phase, progress.first_fatal) == (Phase.READY, None)
    assert {pool.tokens for pool in progress.pools} == {memory["kv_tokens"]} == {1000000}
    for pool in progress.pools:
        per_token = memory["kv_bytes_per_token"]["drafter" if pool.is_drafter else "target"]
        assert pool.size_gb == pytest.approx(1000000 * per_token / GIB, abs=0.01)
    assert "CompressedTensorsWNA16MarlinMoEMethod" in (CASES / f"{case}.log").read_text()


@pytest.mark.parametrize("case", ["kimi/kimi-copy", *KIMI_DFLASH])
def test_the_small_kimi_accepts_what_the_formula_says(case: str) -> None:
    """(1 - p^8) / (1 - p) = 3.94; tokens of 48 requests less the one that each prefill gave."""
    p = read("kimi/record.json")["laws"]["p_t1"]["kimi"]
    predicted = (1 - p**8) / (1 - p)
    for point in read(f"{case}.accept-T1.json")["points"]:
        found = point["overall"]
        without_first = (found["tokens"] - found["requests"]) / found["verify_steps"]
        assert without_first == pytest.approx(predicted, abs=0.15)
    lengths = [point["overall"]["accept_length"] for point in read(f"{case}.accept-T0.json")["points"]]
    assert lengths == [8.0, 8.0]


@pytest.mark.parametrize("case", ["kimi/kimi-copy", *KIMI_DFLASH])
def test_the_small_kimi_answers_alike_with_and_without_its_drafter(case: str) -> None:
    parity = read(f"{case}.parity.json")["parity"]
    assert (parity["verdict"], parity["prompts"], parity["divergences"]) == ("equal", 8, [])


def test_each_rank_took_the_memory_that_was_planned() -> None:
    """Four servers over the same two GPUs, ready: on GPU 1 a rank of each, as nvidia-smi counts them."""
    rows = (CASES / "kimi-tp2" / "kimi-copy-tp2-ep1.nvidia-smi.csv").read_text().splitlines()
    processes = [row.split(", ") for row in rows if row.startswith("GPU-")]
    on_second = sorted(int(mib) for gpu, _, mib in processes if gpu == processes[-1][0])
    planned = [planned_rank_mib(case) for case in (*KIMI[2:], *KIMI_DFLASH)]
    assert on_second == pytest.approx(sorted(planned), rel=0.05)


def planned_rank_mib(case: str) -> float:
    """All that a rank takes; the API server is a process of its own."""
    taken = read(f"{case}.plan.json")["memory"]["taken"]
    return float(sum(part["bytes"] for part in taken if "API server" not in part["name"]) / 2**20)


def test_ranks_that_find_their_gpus_unequally_filled_are_told_so() -> None:
    """Two servers loaded on the first GPU while this one started over both: SGLang refuses, and the log says why."""
    found = diagnose((CASES / "kimi" / "kimi-tp2-ep2.log").read_text(), failure_book())
    assert found[0].code == "gpu-occupied-by-other-process"


@pytest.mark.parametrize("case", ["demo", "demo-dflash"])
def test_the_demo_pair_served_as_planned(case: str) -> None:
    memory, progress = read(f"demo/{case}.plan.json")["memory"], progress_of(f"demo/{case}")
    assert (progress.phase, progress.first_fatal) == (Phase.READY, None)
    assert {pool.tokens for pool in progress.pools} == {memory["kv_tokens"]} == {100000}


def test_a_trained_drafter_is_accepted_well_above_one_on_its_own_text() -> None:
    """36 prompts of its world, greedy: every category above 6 of at most 8 tokens a step, at 1 and 8 streams alike."""
    for point in read("demo/demo-dflash.accept-T0.json")["points"]:
        assert point["overall"]["accept_length"] == pytest.approx(868 / 119)
        assert point["overall"]["requests"] == 36
        assert min(found["accept_length"] for found in point["categories"].values()) > 6


def test_a_trained_drafter_does_not_change_what_its_target_answers() -> None:
    parity = read("demo/demo-dflash.parity.json")["parity"]
    assert (parity["verdict"], parity["prompts"], parity["divergences"]) == ("equal", 8, [])


def test_the_demo_pair_came_up_in_a_container_and_answered_rightly() -> None:
    """kitctl up demo-dflash on a host that had never seen it: models, container, graphs, canary."""
    up = read("demo-container/up.json")
    assert (up["outcome"], up["answer"]) == (
        "ready",
        "Yes: the engine is up, and this sentence was made by it.",
    )
    said = {answer["prompt"]: answer["text"] for answer in up["canary"]["answers"]}
    assert said["What is 17 + 25?"] == "17 + 25 = 42."
    assert (up["canary"]["findings"], up["canary"]["accept_length"]) == ([], pytest.approx(143 / 19))
    engine = json.loads((CASES / "demo-container" / "inspect.json").read_text())
    assert engine["HostConfig"]["DeviceRequests"][0]["DeviceIDs"] == ["nvidia.com/gpu=0"]
    points = read("demo-container/accept-T0.json")["points"]
    assert {point["overall"]["accept_length"] for point in points} == {868 / 119}
    assert read("demo-container/status.killed.json")["diagnoses"][0]["code"] == "rank-killed"


def test_down_names_who_else_holds_the_gpu() -> None:
    """Two other servers had started on the same card meanwhile."""
    (left,) = read("demo-container/down.json")["left"]
    assert (
        left
        == "GPU 0 holds 9957 MiB more than before the start: sglang::scheduler (pid 4335), sglang::scheduler (pid 4422)"
    )


WIDE = ["wide/wide", "wide/wide-copy"]


def engine_client(case: str) -> list[dict[str, Any]]:
    """What sglang.benchmark.serving wrote, a turn each."""
    lines = (CASES / f"{case}.engine-client.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def bench_points(case: str) -> list[dict[str, Any]]:
    """The one point of each turn's result file, as kitctl reads it."""
    names = [f"{case}.second-kitctl-{turn}.jsonl" for turn in (1, 2, 3)]
    results = [read_results(name, (CASES / name).read_text()) for name in names]
    return [msgspec.to_builtins(result.points[0]) for (result,) in results]


@pytest.mark.parametrize("case", WIDE)
def test_bench_and_the_engines_own_client_agree_within_two_percent(case: str) -> None:
    """In turn, three times, 16 streams; both count ramp and tail in, and asked for the same lengths."""
    for ours, theirs in zip(bench_points(case), engine_client(case), strict=True):
        assert (ours["valid"], ours["errors"], ours["completed"]) == (True, 0, theirs["completed"])
        assert ours["output_tokens_mean"] * ours["completed"] == theirs["total_output_tokens"]
        assert ours["whole_run_output_tokens_per_s"] == pytest.approx(theirs["output_throughput"], rel=0.02)


@pytest.mark.parametrize("case", WIDE)
def test_the_time_a_token_takes_is_the_same_by_both_clients(case: str) -> None:
    """Medians of TPOT: in the engine's client one or two requests of a turn have the whole request's time as TTFT."""
    for ours, theirs in zip(bench_points(case), engine_client(case), strict=True):
        assert ours["itl_ms"]["mean"] == pytest.approx(theirs["mean_itl_ms"], rel=0.005)
        assert ours["tpot_ms"]["p50"] == pytest.approx(theirs["median_tpot_ms"], rel=0.005)


def test_both_clients_count_the_accept_length_of_the_drafter_that_is_always_right() -> None:
    assert [point["accept_length"] for point in bench_points("wide/wide-copy")] == [8.0] * 3
    assert [theirs["accept_length"] for theirs in engine_client("wide/wide-copy")] == [8.0] * 3
    assert {point["accept_length"] for point in bench_points("wide/wide")} == {None}


@pytest.mark.parametrize("case", WIDE)
def test_the_8b_shape_alone_on_its_card_takes_the_memory_that_was_planned(case: str) -> None:
    memory, log = read(f"{case}.plan.json")["memory"], (CASES / f"{case}.log").read_text()
    free_gib = float(log.rsplit("available_gpu_mem=", 1)[1].split(" ")[0])
    assert memory["free_bytes"] / GIB == pytest.approx(free_gib, rel=0.01)
    assert {pool.tokens for pool in progress_of(case).pools} == {memory["kv_tokens"]} == {100000}


def test_the_proof_can_be_run_again() -> None:
    """Each of its cases has its stack, each stack its models among those that are made or shipped."""
    folder = Path(__file__).parent / "gpu"
    proof = runpy.run_path(str(folder / "prove.py"))
    own = {
        f"{kind}/{p.name}": p.read_text() for kind in ("stacks", "parts") for p in (folder / kind).iterdir()
    }
    texts = KitTexts(kit=load_kit_texts(str(folder.parent.parent)).kit, user=own)
    known = {*proof["DEMO"], *(f"proof/{name}" for name in proof["MODELS"])}
    cases = tomllib.loads((folder / "cases.toml").read_text())["case"]
    for case in cases:
        stack = resolve_stack(texts, case["stack"]).stack
        assert set(stack.models) <= known, case["name"]
        names = {one["name"] for one in cases if (one["gpus"], one["group"]) == (case["gpus"], case["group"])}
        assert case.get("parity_with", case["name"]) in names
