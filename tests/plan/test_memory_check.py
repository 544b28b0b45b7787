from pathlib import Path

import pytest

from kitctl.host.facts import Container, Gpu, HostFacts
from kitctl.kit.model_facts import read_model_facts
from kitctl.kit.stack import Stack
from kitctl.kit.tensor_index import Role, Weights, WeightSum
from kitctl.plan.memory_check import check_memory, smallest_gpu, with_stated_size
from kitctl.plan.memory_data import read_memory_data
from kitctl.plan.memory_stage import GpuMemory

ROOT = Path(__file__).parents[2]
DATA = read_memory_data((ROOT / "kitctl" / "data" / "engine_memory.toml").read_text())
MODEL = (ROOT / "tests" / "cases" / "models" / "qwen3-tiny" / "config.json").read_text()
GIB = 1024**3


def gpu(index: int, *, total: int | None = 97887, used: int = 4) -> Gpu:
    return Gpu(
        index=index, name="card", compute_capability="12.0", memory_total_mib=total, memory_used_mib=used
    )


def test_the_gpu_with_the_least_room_counts() -> None:
    facts = HostFacts(gpus=(gpu(0), gpu(1, used=30_000), gpu(2, used=90_000)))
    assert smallest_gpu(facts, (0, 1), own_project=None) == GpuMemory(
        total_mib=97887, used_mib=30_000, name="card", compute_capability="12.0"
    )


def test_an_idle_drivers_few_megabytes_do_not_count() -> None:
    found = smallest_gpu(HostFacts(gpus=(gpu(0, used=600),)), (0,), own_project=None)
    assert found is not None
    assert found.used_mib == 0


def test_the_stacks_own_memory_counts_as_free() -> None:
    own = Container(id="1", name="kitctl-x-engine-1", project="kitctl-x")
    facts = HostFacts(gpus=(gpu(0, used=90_000),), containers=(own,))
    found = smallest_gpu(facts, (0,), own_project="kitctl-x")
    other = smallest_gpu(facts, (0,), own_project="kitctl-y")
    assert found is not None and other is not None
    assert (found.used_mib, other.used_mib) == (0, 90_000)


def test_a_gpu_that_shares_the_hosts_memory_has_the_hosts() -> None:
    facts = HostFacts(gpus=(gpu(0, total=None),), ram_total_bytes=128 * GIB, ram_available_bytes=100 * GIB)
    found = smallest_gpu(facts, (0,), own_project=None)
    assert found is not None
    assert (found.total_mib, found.used_mib) == (128 * 1024, 28 * 1024)


@pytest.mark.parametrize("facts", [HostFacts(), HostFacts(gpus=(gpu(0, total=None), gpu(1)))])
def test_unknown_memory_stays_unknown(facts: HostFacts) -> None:
    assert smallest_gpu(facts, (0, 1), own_project=None) is None


def test_a_plan_without_known_memory_says_so() -> None:
    answer = check_memory(
        Stack(name="x", summary="", model="m"),
        release="0.5.16",
        argv=(),
        model=read_model_facts(MODEL),
        drafter=None,
        weights=None,
        drafter_weights=None,
        gpu=None,
        data=DATA,
    )
    assert (answer.fit, answer.max_total_tokens, answer.json()) == (None, None, None)
    assert [finding.code for finding in answer.findings] == ["memory-not-judged"]


def test_weights_are_raised_to_the_stated_size_and_never_lowered() -> None:
    weights = Weights(sums=(WeightSum(role=Role.SPLIT, layers=(0, 1), each_bytes=50),), source="computed")
    assert with_stated_size(weights, 101) is weights
    assert with_stated_size(weights, None) is weights
    raised = with_stated_size(weights, 150)
    assert (raised.size_bytes, raised.source) == (150, "computed, raised by 50% to the stated size")
