"""What is written to one file system must fit into it together, whatever the paths."""

from pathlib import Path

import pytest

import kitctl
from kitctl.host.facts import Disk, HostFacts
from kitctl.plan.host_need import HostNeed
from kitctl.plan.host_tables import read_host_tables
from kitctl.plan.space_checks import check_stack_space

DATA = Path(kitctl.__file__).parent / "data"
GB = 10**9


def causes(free: dict[str, tuple[str, int]], need: dict[str, int]) -> list[str]:
    tables = read_host_tables(
        findings=(DATA / "host_findings.yaml").read_text(),
        gpus=(DATA / "gpus.toml").read_text(),
        nccl=(DATA / "nccl.toml").read_text(),
    )
    disks = tuple(
        Disk(path=path, free_bytes=size, total_bytes=2000 * GB, filesystem=name)
        for path, (name, size) in free.items()
    )
    found = check_stack_space(HostFacts(disks=disks), HostNeed(disk_bytes=need), tables)
    return [finding.cause for finding in found]


@pytest.mark.parametrize(
    ("store_free", "same_disk", "expected"),
    [
        (620, False, []),
        (620, True, ["/store has 620.0 GB free and 625.4 GB are needed"]),
        (640, True, []),
    ],
    ids=["two-disks", "one-disk-too-small", "one-disk"],
)
def test_models_and_image_are_added_up_where_they_share_a_disk(
    store_free: int, same_disk: bool, expected: list[str]
) -> None:
    root = ("/dev/a" if same_disk else "/dev/b", store_free * GB if same_disk else 30 * GB)
    free = {"/store": ("/dev/a", store_free * GB), "/var/lib/docker": root}
    assert causes(free, {"/store": 607 * GB, "/var/lib/docker": 13 * GB}) == expected
