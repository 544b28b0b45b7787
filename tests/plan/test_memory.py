"""The plan's arithmetic against real runs (tests/cases/gpu), and what must hold for any stack."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitctl.finding import Severity
from kitctl.kit.drafter_facts import DrafterFacts, read_drafter_facts
from kitctl.kit.model_facts import ModelFacts, read_model_facts
from kitctl.kit.stack import Drafter, EngineSettings, Parallel, Stack
from kitctl.plan.memory import MemoryFit, fit_memory
from kitctl.plan.memory_data import MemoryData, read_memory_data
from kitctl.plan.memory_report import memory_findings, memory_json, memory_lines
from kitctl.plan.memory_stage import GpuMemory
from kitctl.plan.memory_verdict import RANK, Verdict

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"
DATA: MemoryData = read_memory_data((ROOT / "kitctl" / "data" / "engine_memory.toml").read_text())
FILES = sorted((CASES / "gpu").glob("*.json"))
GIB = 1024**3
PRO_6000 = GpuMemory(
    total_mib=97887, name="NVIDIA RTX PRO 6000 Blackwell Server Edition", compute_capability="12.0"
)
B300 = GpuMemory(total_mib=275040, name="NVIDIA B300 SXM6 AC", compute_capability="10.3")


def model(name: str) -> ModelFacts:
    return read_model_facts((CASES / "models" / name / "config.json").read_text())


def drafter(name: str) -> DrafterFacts:
    return read_drafter_facts((CASES / "models" / name / "config.json").read_text())


def stack_of(tree: dict[str, Any]) -> Stack:
    return msgspec.convert({"name": "case", "summary": "", "model": "m"} | tree, Stack)


def fit_case(case: dict[str, Any]) -> MemoryFit:
    return fit_memory(
        stack_of(case["stack"]),
        release=case["release"],
        model=model(case["model"]),
        gpu=GpuMemory(**case["gpu"]),
        data=DATA,
        drafter=drafter(case["drafter"]) if "drafter" in case else None,
    )


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def case(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(request.param.read_text())
    return found


def test_weight_bytes_are_exact(case: dict[str, Any]) -> None:
    fit, measured = fit_case(case), case["measured"]
    assert measured.get("weight_bytes", fit.weight_bytes) == fit.weight_bytes
    assert measured.get("drafter_weight_bytes", fit.drafter_weight_bytes) == fit.drafter_weight_bytes
    experts = sum(amount.size_bytes for amount in fit.taken if amount.name == "experts")
    assert measured.get("expert_bytes", experts) == experts


def test_what_is_loaded_is_met_to_a_tenth_of_a_gib(case: dict[str, Any]) -> None:
    fit = fit_case(case)
    loaded = case["measured"].get("loaded_gib", fit.loaded_bytes / GIB)
    assert abs(fit.loaded_bytes / GIB - loaded) < 0.1


def test_tokens_of_kv_are_met_to_one_percent(case: dict[str, Any]) -> None:
    fit = fit_case(case)
    assert fit.kv_tokens_uncapped == pytest.approx(
        case["measured"].get("kv_tokens", fit.kv_tokens_uncapped), rel=0.01
    )


def test_a_cap_that_was_served_is_the_one_that_is_planned(case: dict[str, Any]) -> None:
    """With it both pools lay on an H200 where the engine's own count had run out of memory."""
    fit, measured = fit_case(case), case["measured"]
    assert fit.kv_tokens == measured.get("kv_tokens_capped", fit.kv_tokens)
    left = fit.free_before_load_bytes - fit.loaded_bytes - fit.kv_tokens * fit.cells.real
    assert left / GIB == pytest.approx(measured.get("free_after_pools_gib", left / GIB), rel=0.03)


def test_free_memory_is_met_to_three_percent(case: dict[str, Any]) -> None:
    """The engine's own figure leaves out the API server, another process on GPU 0."""
    fit = fit_case(case)
    server = sum(amount.size_bytes for amount in fit.taken if amount.name.startswith("API server"))
    free = (fit.free_bytes_uncapped + server) / GIB
    assert free == pytest.approx(case["measured"].get("free_gib", free), rel=0.03)


def test_the_fraction_is_the_engines_own(case: dict[str, Any]) -> None:
    fit = fit_case(case)
    assert fit.fraction == pytest.approx(case["measured"].get("fraction", fit.fraction), abs=0.0005)


def test_it_never_fits_where_the_engine_failed(case: dict[str, Any]) -> None:
    """Where the engine failed, the plan refuses, warns, or caps the tokens; where it started, nothing blocks."""
    fit = fit_case(case)
    if case["measured"]["starts"] is not False:
        assert fit.verdict is not Verdict.DOES_NOT_FIT
    else:
        assert fit.verdict is Verdict.DOES_NOT_FIT or fit.max_total_tokens is not None
        assert fit.verdict is not Verdict.FITS


def test_the_default_fraction_under_dflash_is_capped_to_what_both_pools_hold() -> None:
    fit = fit_case(json.loads((CASES / "gpu" / "kimi-tp1-dflash-default-fraction.json").read_text()))
    assert (fit.cells.target, fit.cells.drafter, fit.cells.budgeted) == (4608, 8192, 6912)
    assert fit.max_total_tokens is not None
    assert fit.max_total_tokens * 12800 <= fit.kv_budget_bytes < (fit.max_total_tokens + 1) * 12800
    assert fit.free_bytes_uncapped < 0 < fit.free_bytes
    capped = [finding for finding in memory_findings(fit) if finding.code == "memory-tokens-capped"]
    assert [(finding.severity, finding.cause) for finding in capped] == [
        (
            Severity.NOTE,
            "the engine would size its KV cache at 6912 B a token, but target and drafter take 12800 B: "
            f"{fit.kv_tokens_uncapped} tokens would go beyond its share of memory",
        )
    ]


def k26(gpu: GpuMemory, *, tp: int, release: str = "0.5.16", **more: Any) -> MemoryFit:
    return fit_memory(
        stack_of({"parallel": {"tp": tp, "ep": min(tp, 4)}, **more}),
        release=release,
        model=model("kimi-k2.6"),
        gpu=gpu,
        data=DATA,
        drafter=drafter("kimi-k2.6-dflash"),
    )


ENGINE = {
    "mem_fraction_static": 0.85,
    "context_length": 32768,
    "max_running_requests": 128,
    "graph_max_bs": 32,
}
DFLASH = {"model": "d", "block_size": 8}


def test_k26_with_its_drafter_fits_8_gpus_of_96_gb() -> None:
    fit = k26(PRO_6000, tp=8, engine=ENGINE, drafter=DFLASH)
    assert fit.verdict is Verdict.FITS
    assert (fit.cells.target, fit.cells.drafter, fit.cells.budgeted) == (70272, 3072, 77184)
    assert fit.max_total_tokens is None
    assert fit.drafter_weight_bytes == pytest.approx(1.31 * GIB, rel=0.01)
    assert 80_000 < fit.kv_tokens < 90_000


def test_k26_on_4_gpus_of_96_gb_is_refused_with_the_numbers() -> None:
    fit = k26(PRO_6000, tp=4, engine=ENGINE)
    (found,) = memory_findings(fit)
    assert (found.code, found.severity) == ("memory-does-not-fit", Severity.BLOCK)
    assert found.cause == "the weights take 140.95 GiB of each GPU, 93.51 GiB are free"
    assert found.remedy == "more GPUs (parallel.tp or pp), GPUs with more memory, or a smaller checkpoint"


def test_k26_on_8_b300_fits_with_room() -> None:
    fit = k26(B300, tp=8, engine=ENGINE, drafter=DFLASH)
    assert fit.verdict is Verdict.FITS
    assert fit.kv_tokens > 2_000_000


def test_k26_at_the_engines_own_fraction_leaves_no_cache_on_96_gb() -> None:
    fit = k26(PRO_6000, tp=8)
    assert fit.verdict is Verdict.DOES_NOT_FIT
    assert fit.reason == (
        "the weights (71.87 GiB) leave no KV cache at fraction 0.758; above 0.769 a first token fits"
    )


@pytest.mark.parametrize(
    ("release", "budgeted", "capped"), [("0.5.16", 77184, True), ("0.5.23", 82560, False)]
)
def test_a_later_release_budgets_the_drafter_as_it_is(release: str, budgeted: int, capped: bool) -> None:
    big = GpuMemory(total_mib=1_000_000, compute_capability="12.0")
    fit = k26(big, tp=2, release=release, engine=ENGINE, drafter=DFLASH)
    assert fit.cells.budgeted == budgeted
    assert (fit.max_total_tokens is not None) is capped


def test_pipeline_stages_are_judged_by_the_fullest() -> None:
    fit = fit_memory(
        stack_of({"parallel": {"pp": 8}, "engine": ENGINE}),
        release="0.5.16",
        model=model("kimi-k2.6"),
        gpu=PRO_6000,
        data=DATA,
    )
    assert fit.stage == 7
    assert fit.cells.target == 8 * 576 * 2


def test_json_and_lines_carry_each_number_with_its_source() -> None:
    fit = k26(PRO_6000, tp=8, engine=ENGINE, drafter=DFLASH)
    tree = memory_json(fit)
    assert tree["verdict"] == "fits"
    assert tree["kv_bytes_per_token"] == {"target": 70272, "drafter": 3072, "budgeted_by_engine": 77184}
    assert all(amount["source"] for amount in (*tree["taken"], *tree["needed"]))
    assert json.loads(json.dumps(tree, allow_nan=False)) == tree
    assert memory_lines(tree)[0].startswith("memory of each GPU: fits (")


LAYOUTS = st.sampled_from([(1, 1), (2, 1), (2, 2), (4, 1), (4, 4), (8, 1), (8, 2), (8, 4), (8, 8)])
NAMES = st.sampled_from(["kimi-k2.6", "kimi-small", "qwen3-tiny", "qwen3-tiny-moe"])
FRACTIONS = st.sampled_from([None, 0.3, 0.7, 0.85, 0.9, 0.95])


def any_fit(
    name: str, layout: tuple[int, int], total_mib: int, fraction: float | None, *, drafts: bool
) -> MemoryFit:
    kimi = name.startswith("kimi")
    return fit_memory(
        Stack(
            name="any",
            summary="",
            model="m",
            parallel=Parallel(tp=layout[0], ep=layout[1]),
            engine=EngineSettings(mem_fraction_static=fraction, max_running_requests=64, graph_max_bs=32),
            drafter=Drafter(model="d") if drafts else None,
        ),
        release="0.5.16",
        model=model(name),
        gpu=GpuMemory(total_mib=total_mib, compute_capability="12.0"),
        data=DATA,
        drafter=drafter("kimi-k2.6-dflash" if kimi else "qwen3-tiny-dflash"),
    )


@settings(max_examples=60, deadline=None)
@given(
    name=NAMES,
    layout=LAYOUTS,
    mib=st.integers(20_000, 290_000),
    more=st.integers(0, 150_000),
    fraction=FRACTIONS,
)
def test_more_memory_never_turns_a_fit_into_none(
    name: str, layout: tuple[int, int], mib: int, more: int, fraction: float | None
) -> None:
    """At a set fraction; the engine's own one drops where it takes larger chunks and graphs."""
    small = any_fit(name, layout, mib, fraction or 0.85, drafts=True)
    large = any_fit(name, layout, mib + more, fraction or 0.85, drafts=True)
    if small.verdict is not Verdict.DOES_NOT_FIT and _same_capacity(mib, mib + more):
        assert RANK[large.verdict] >= RANK[small.verdict]
    assert large.kv_tokens >= small.kv_tokens


def _same_capacity(first: int, second: int) -> bool:
    bounds = [capacity.below_mib for capacity in DATA.capacity if capacity.below_mib is not None]
    return all((first < bound) == (second < bound) for bound in bounds)


@settings(max_examples=60, deadline=None)
@given(name=NAMES, ep=st.sampled_from([1, 2]), mib=st.integers(30_000, 290_000))
def test_more_gpus_never_raise_the_weights_of_one(name: str, ep: int, mib: int) -> None:
    fits = [any_fit(name, (tp, min(ep, tp)), mib, 0.85, drafts=True) for tp in (1, 2, 4, 8)]
    assert [fit.weight_bytes for fit in fits] == sorted((fit.weight_bytes for fit in fits), reverse=True)
    drafted = [fit.drafter_weight_bytes for fit in fits]
    assert drafted == sorted(drafted, reverse=True)


@settings(max_examples=60, deadline=None)
@given(name=NAMES, layout=LAYOUTS, mib=st.integers(20_000, 290_000), fraction=FRACTIONS, drafts=st.booleans())
def test_the_pools_stay_within_the_budget(
    name: str, layout: tuple[int, int], mib: int, fraction: float | None, drafts: bool
) -> None:
    fit = any_fit(name, layout, mib, fraction, drafts=drafts)
    if fit.kv_tokens:
        assert fit.kv_tokens * fit.cells.real <= fit.kv_budget_bytes
    assert fit.kv_tokens <= fit.kv_tokens_uncapped


@settings(max_examples=100, deadline=None)
@given(
    name=NAMES,
    tp=st.integers(1, 17),
    ep=st.integers(1, 17),
    pp=st.integers(1, 17),
    mib=st.integers(1_000, 300_000),
    used=st.integers(0, 300_000),
    algorithm=st.sampled_from([None, "DFLASH", "EAGLE", "EAGLE3", "DDTREE"]),
)
def test_any_layout_is_judged_even_one_that_a_rule_refuses(
    name: str, tp: int, ep: int, pp: int, mib: int, used: int, algorithm: str | None
) -> None:
    fit = fit_memory(
        stack_of(
            {"parallel": {"tp": tp, "ep": ep, "pp": pp}}
            | ({"drafter": {"model": "d", "algorithm": algorithm}} if algorithm else {})
        ),
        release="0.5.16",
        model=model(name),
        gpu=GpuMemory(total_mib=mib, used_mib=used),
        data=DATA,
        drafter=drafter("kimi-k2.6-dflash"),
    )
    json.dumps(memory_json(fit), allow_nan=False)
    memory_findings(fit)
