"""What a stack that went down still holds is named; what was held before its start is not its own."""

from typing import Any

import msgspec
import pytest

from kitctl.host.facts import Gpu, GpuProcess, HostFacts, Listener
from kitctl.watch.left_over import left_over, tells_memory

BEFORE = {"gpus": [{"index": 0, "memory_used_mib": 4000}, {"index": 1, "memory_used_mib": 4}]}
RANK = GpuProcess(pid=77, name="sglang::scheduler_TP1", used_mib=21000)


def now(*gpus: Gpu, listeners: tuple[Listener, ...] = ()) -> HostFacts:
    return HostFacts(gpus=gpus, listeners=listeners)


def test_nothing_is_left() -> None:
    facts = now(Gpu(index=0, name="x", memory_used_mib=4300), Gpu(index=1, name="x", memory_used_mib=400))
    assert left_over(BEFORE, facts, gpus=(0, 1), port=30001) == ()
    assert left_over({}, HostFacts(), gpus=(0, 1), port=30001) == ()
    assert tells_memory(facts, (0, 1))
    assert not tells_memory(facts, (0, 2))
    assert not tells_memory(now(Gpu(index=0, name="x")), (0,))


def test_memory_and_port_are_named_with_their_holders() -> None:
    facts = now(
        Gpu(index=0, name="x", memory_used_mib=24000),
        Gpu(index=1, name="x", memory_used_mib=22004, processes=(RANK,)),
        Gpu(index=2, name="x", memory_used_mib=90000),
        listeners=(Listener(port=30001, pid=9, holder="nginx"), Listener(port=22, pid=1, holder="sshd")),
    )
    left = left_over(BEFORE, facts, gpus=(0, 1), port=30001)
    assert [one.line for one in left] == [
        "port 30001 is taken by nginx (pid 9)",
        "GPU 0 holds 20000 MiB more than before the start: no process is named",
        "GPU 1 holds 22000 MiB more than before the start: sglang::scheduler_TP1 (pid 77)",
    ]
    assert not any(one.is_others for one in left)


@pytest.mark.parametrize(
    ("used_mib", "neighbour", "is_others"),
    [
        (21400, {"container": "other-engine-1"}, True),
        (22004, {"container": "other-engine-1"}, False),
        (21400, {}, False),
        (21400, {"pid": 5}, True),
    ],
)
def test_no_waiting_frees_what_others_hold(used_mib: int, neighbour: dict[str, Any], is_others: bool) -> None:
    """A running container is not the stack's, which is gone; nor is a process that was there before its start."""
    before = {"gpus": [{"index": 0, "memory_used_mib": 4, "processes": [{"pid": 5}]}]}
    holder = msgspec.structs.replace(RANK, **neighbour)
    facts = now(Gpu(index=0, name="x", memory_used_mib=used_mib, processes=(holder,)))
    (left,) = left_over(before, facts, gpus=(0,), port=30001)
    assert left.is_others == is_others
