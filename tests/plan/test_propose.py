from pathlib import Path

import pytest
import yaml

from kitctl.kit.drafter_facts import read_drafter_facts
from kitctl.kit.model_facts import read_model_facts
from kitctl.kit.stack import Parallel
from kitctl.plan.engine_rules import read_rules
from kitctl.plan.memory_data import read_memory_data
from kitctl.plan.memory_stage import GpuMemory
from kitctl.plan.memory_verdict import Verdict
from kitctl.plan.propose import Proposal, Wanted, layouts, propose, stack_yaml

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "tests" / "cases" / "models"
BOOK = read_rules((ROOT / "kitctl" / "data" / "engine_rules.yaml").read_text())
DATA = read_memory_data((ROOT / "kitctl" / "data" / "engine_memory.toml").read_text())


def wanted(name: str, *, gpus: int, total_mib: int = 97887, drafter: str | None = None) -> Wanted:
    found = drafter and read_drafter_facts((MODELS / drafter / "config.json").read_text())
    return Wanted(
        name="mine",
        target=f"somebody/{name}",
        model=read_model_facts((MODELS / name / "config.json").read_text()),
        weights=None,
        drafter_name=drafter,
        drafter=found or None,
        gpu=GpuMemory(total_mib=total_mib, compute_capability="12.0"),
        gpu_count=gpus,
        archs=("12.0",),
        links="pcie",
        release="0.5.16",
    )


def sizes(found: tuple[Proposal, ...]) -> list[tuple[int, int, int]]:
    return [(one.stack.parallel.tp, one.stack.parallel.ep, one.stack.parallel.pp) for one in found]


def test_k26_with_its_drafter_needs_all_8_gpus_and_every_ep_is_offered() -> None:
    found = propose(wanted("kimi-k2.6", gpus=8, drafter="kimi-k2.6-dflash"), book=BOOK, data=DATA)
    assert sizes(found) == [(8, 1, 1), (8, 2, 1), (8, 4, 1), (8, 8, 1)]
    assert {one.fit.verdict for one in found} == {Verdict.FITS}
    assert found[0].reasons[2:] == ("every layer sums over all GPUs through PCIe",)


def test_without_a_drafter_pipelines_are_offered_last() -> None:
    found = sizes(propose(wanted("kimi-k2.6", gpus=8), book=BOOK, data=DATA))
    assert (1, 1, 8) in found
    assert [pp for _, _, pp in found] == sorted(pp for _, _, pp in found)


def test_nothing_is_proposed_where_nothing_fits() -> None:
    assert propose(wanted("kimi-k2.6", gpus=4), book=BOOK, data=DATA) == ()


def test_a_dense_model_gets_no_ep_and_layouts_that_its_heads_allow() -> None:
    found = sizes(propose(wanted("qwen3-tiny", gpus=8), book=BOOK, data=DATA))
    assert {ep for _, ep, _ in found} == {1}
    assert (8, 1, 1) in found


def test_layouts_use_a_whole_number_of_gpus() -> None:
    assert list(layouts(wanted("qwen3-tiny-moe", gpus=2))) == [
        Parallel(),
        Parallel(pp=2),
        Parallel(tp=2),
        Parallel(tp=2, ep=2),
    ]


@pytest.mark.parametrize("gpus", [1, 2, 3, 6, 8])
def test_every_proposal_fits_by_its_own_settings(gpus: int) -> None:
    for one in propose(wanted("qwen3-tiny-moe", gpus=gpus), book=BOOK, data=DATA):
        assert one.fit.verdict is not Verdict.DOES_NOT_FIT
        assert one.stack.engine.mem_fraction_static is not None
        assert one.stack.engine.mem_fraction_static <= DATA.fraction.advise_most


def test_the_file_says_only_what_differs_and_why() -> None:
    text = stack_yaml(
        propose(wanted("kimi-k2.6", gpus=8, drafter="kimi-k2.6-dflash"), book=BOOK, data=DATA)[2]
    )
    tree = yaml.safe_load(text)
    assert text.startswith("# fits: ")
    assert tree["summary"] == "somebody/kimi-k2.6, tp 8, ep 4, with its drafter"
    assert tree["parallel"] == {"tp": 8, "ep": 4}
    assert tree["drafter"] == {"model": "kimi-k2.6-dflash", "algorithm": "DFLASH", "block_size": 8}
    assert set(tree["engine"]) == {
        "mem_fraction_static",
        "context_length",
        "max_running_requests",
        "trust_remote_code",
    }
