"""Which GPUs a stack gets, with the reason, and what stands against them."""

import pytest
from planned import PCIE, host

from kitctl.errors import Exit, KitError
from kitctl.host.facts import Gpu, GpuProcess, HostFacts
from kitctl.plan.gpu_choice import choose_gpus, read_gpu_list


def gpus(*memory_used_mib: int | None, busy: tuple[int, ...] = (), names: str = "") -> HostFacts:
    found = tuple(
        Gpu(
            index=index,
            name=f"GPU {names[index]}" if names else "GPU A",
            uuid=f"GPU-u{index}",
            memory_total_mib=1000,
            memory_used_mib=used,
            processes=(GpuProcess(pid=7),) if index in busy else (),
        )
        for index, used in enumerate(memory_used_mib)
    )
    return HostFacts(gpus=found)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("0-7", tuple("01234567")),
        ("4,5", ("4", "5")),
        (" 1 , 0 ", ("1", "0")),
        ("0-1,4-5", ("0", "1", "4", "5")),
        ("3-3", ("3",)),
        ("GPU-ab-cd,2", ("GPU-ab-cd", "2")),
        ("MIG-1", ("MIG-1",)),
    ],
)
def test_a_list_is_read(text: str, ids: tuple[str, ...]) -> None:
    assert read_gpu_list(text) == ids


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "every GPU may stand once, and at least one must"),
        (",", "every GPU may stand once, and at least one must"),
        ("0,0", "every GPU may stand once, and at least one must"),
        ("0-3,2", "every GPU may stand once, and at least one must"),
        ("3-0", "'3-0' is neither an index, a range nor a UUID"),
        ("-1", "'-1' is neither an index, a range nor a UUID"),
        ("one", "'one' is neither an index, a range nor a UUID"),
        ("0;rm", "'0;rm' is neither an index, a range nor a UUID"),
        ("²", "'²' is neither an index, a range nor a UUID"),
        ("0-999999999", "'0-999999999' is neither an index, a range nor a UUID"),
    ],
)
def test_a_list_that_is_none_is_refused(text: str, why: str) -> None:
    with pytest.raises(KitError) as refused:
        read_gpu_list(text)
    assert refused.value.cause == f"--gpus {text}: {why}"
    assert (refused.value.code, refused.value.exit_code) == ("bad-gpus", Exit.USAGE)


def test_named_gpus_are_taken_as_named() -> None:
    choice = choose_gpus(gpus(0, 0, 0), wanted="2,GPU-u0", count=2)
    assert (choice.ids, choice.indices, choice.reason) == (("2", "GPU-u0"), (2, 0), "--gpus 2,GPU-u0")
    assert choice.findings == ()


def test_all_means_all() -> None:
    choice = choose_gpus(gpus(0, 0, 0), wanted="all", count=3)
    assert (choice.ids, choice.findings) == (("0", "1", "2"), ())


def test_busy_gpus_are_left_to_others() -> None:
    choice = choose_gpus(gpus(0, 21, 20, None, 0, busy=(0,)), wanted=None, count=3)
    assert (choice.ids, choice.reason) == (("2", "3", "4"), "the first 3 free ones of one model")


def test_one_model_is_chosen_not_a_mixture() -> None:
    choice = choose_gpus(gpus(0, 0, 0, 0, 0, names="ABBAB"), wanted=None, count=3)
    assert choice.ids == ("1", "2", "4")


def test_the_shortest_links_are_chosen_where_the_topology_is_known() -> None:
    facts = host(PCIE)
    choice = choose_gpus(facts, wanted=None, count=4)
    assert choice.indices in ((0, 1, 2, 3), (4, 5, 6, 7))


def test_too_few_free_gpus_take_the_hosts_first_and_say_so() -> None:
    choice = choose_gpus(gpus(0, 900, 900), wanted=None, count=2)
    assert (choice.ids, choice.reason) == (("0", "1"), "the first 2 GPUs of the host; not enough are free")


@pytest.mark.parametrize(
    ("facts", "wanted", "count", "code", "cause"),
    [
        (HostFacts(), None, 2, "gpus-unknown", "this stack needs GPUs and none could be seen on the host"),
        (gpus(0, 0), "0,5", 2, "gpu-not-there", "the host has no GPU 5"),
        (gpus(0, 0), "GPU-x", 1, "gpu-not-there", "the host has no GPU GPU-x"),
        (gpus(0, 0), "0", 2, "gpu-count-mismatch",
         "the stack uses 2 GPUs (dp * tp * pp) and 1 would be reserved"),
        (gpus(0, 0), None, 8, "gpu-count-mismatch",
         "the stack uses 8 GPUs (dp * tp * pp) and 2 would be reserved"),
        (gpus(0, 0), "0,GPU-u0", 2, "gpu-twice", "--gpus names a GPU twice: 0 and GPU-u0 are the same"),
    ],
)  # fmt: skip
def test_what_stands_against_a_choice_blocks(
    facts: HostFacts, wanted: str | None, count: int, code: str, cause: str
) -> None:
    (finding,) = choose_gpus(facts, wanted=wanted, count=count).findings
    assert (finding.code, finding.cause, finding.severity) == (code, cause, "block")
