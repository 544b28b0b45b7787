"""What a stack left behind, told to a campaign: its GPUs are free, are not, or cannot be judged."""

import pytest

from kitctl.commands.freeing import Freed
from kitctl.watch.left_over import Left

PORT = Left(line="port 30001 is taken by nginx (pid 9)")
MEMORY = Left(line="GPU 4 holds 22000 MiB more than before the start: no process is named", gpu=4)


@pytest.mark.parametrize(
    ("freed", "expected"),
    [
        (Freed(gpus_told=True), True),
        (Freed(gpus_told=True, left=(PORT,)), True),
        (Freed(gpus_told=True, left=(PORT, MEMORY)), False),
        (Freed(gpus_told=False), None),
        (Freed(), None),
    ],
)
def test_gpus_are_free_when_none_is_left(freed: Freed, expected: bool | None) -> None:
    assert freed.are_gpus_free is expected
