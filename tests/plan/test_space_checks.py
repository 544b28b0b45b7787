"""Is there room: disks that share a file system, and a port that somebody has?"""

import pytest

from kitctl.edge.host_data import load_host_tables
from kitctl.host.facts import Disk, HostFacts, Listener
from kitctl.plan.host_need import HostNeed
from kitctl.plan.space_checks import check_stack_space

GB = 10**9


def causes(free: dict[str, tuple[str, int]], need: dict[str, int]) -> list[str]:
    disks = tuple(
        Disk(path=path, free_bytes=size, total_bytes=2000 * GB, filesystem=name)
        for path, (name, size) in free.items()
    )
    found = check_stack_space(HostFacts(disks=disks), HostNeed(disk_bytes=need), load_host_tables())
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


def test_a_port_whose_container_could_not_be_listed_says_so() -> None:
    held = Listener(port=30001, address="127.0.0.1", pid=7, holder="docker-proxy")
    facts = HostFacts(listeners=(held,), unknown={"containers": "docker ps: no answer within 10 s"})
    need = HostNeed(port=30001, bind="127.0.0.1", own_project="kitctl-one")
    assert [(one.cause, one.evidence) for one in check_stack_space(facts, need, load_host_tables())] == [
        (
            "port 30001 is in use by docker-proxy (pid 7)",
            (
                "listening on 127.0.0.1:30001",
                "which container publishes it is not known: docker ps: no answer within 10 s",
            ),
        )
    ]
