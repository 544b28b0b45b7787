"""What may go from a store, and what must stay."""

from pathlib import PurePosixPath

from kitctl.store.on_disk import BlobOnDisk, RepoOnDisk, plan_prune, plan_removal

FOLDER = PurePosixPath("/s/models--org--x")
HOUR = 3600.0


def blob(name: str, size: int = 10, age_s: float = 2 * HOUR) -> BlobOnDisk:
    return BlobOnDisk(name=name, size_bytes=size, age_s=age_s)


def repo(*blobs: BlobOnDisk, **snapshots: frozenset[str]) -> RepoOnDisk:
    return RepoOnDisk(repo="org/x", folder=FOLDER, blobs=blobs, snapshots=snapshots, plain_bytes=0)


def test_prune_takes_old_unlinked_and_unfinished_blobs_largest_first() -> None:
    found = plan_prune(
        [
            repo(
                blob("linked"),
                blob("unlinked", 20),
                blob("x.0a.incomplete", 30),
                blob("old.kitctl-part", 5),
                blob("wanted.kitctl-part"),
                blob("young.kitctl-part", age_s=10),
                a=frozenset({"linked"}),
            )
        ],
        wanted={"wanted"},
    )
    assert [(str(one.path), one.size_bytes, one.reason) for one in found] == [
        ("/s/models--org--x/blobs/x.0a.incomplete", 30, "a transfer that did not end"),
        ("/s/models--org--x/blobs/unlinked", 20, "no snapshot links to it"),
        ("/s/models--org--x/blobs/old.kitctl-part", 5, "a transfer that did not end"),
    ]


def test_removing_one_snapshot_keeps_the_blobs_of_another() -> None:
    both = repo(blob("shared"), blob("mine"), a=frozenset({"shared", "mine"}), b=frozenset({"shared"}))
    assert [str(one.path) for one in plan_removal(both, snapshot="a")] == [
        "/s/models--org--x/snapshots/a",
        "/s/models--org--x/blobs/mine",
    ]


def test_removing_the_only_snapshot_removes_the_folder() -> None:
    only = repo(blob("mine"), a=frozenset({"mine"}))
    (removal,) = plan_removal(only, snapshot="a")
    assert (removal.path, removal.size_bytes) == (FOLDER, 10)
    assert plan_removal(only, snapshot=None) == (removal,)
