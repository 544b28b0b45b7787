"""Where a model lies, what is missing, and what a pull does with each file."""

import re
from pathlib import PurePosixPath

from kitctl.kit.models_lock import FileRole, LockedFile, LockState, ModelEntry
from kitctl.store.layout import link_target, lock_path, mount_and_model_dir, name_of_folder, repo_folder
from kitctl.store.place import FileSeen, ModelPlace, Presence, place_of
from kitctl.store.pull_plan import Reusable, Step, bytes_written, plan_pull

STORE = PurePosixPath("/store")


def locked(path: str, size: int = 10) -> LockedFile:
    return LockedFile(path=path, size_bytes=size, role=FileRole.WEIGHTS, sha256="c" * 64)


def entry_of(*files: LockedFile, path: str | None = None) -> ModelEntry:
    return ModelEntry(repo="org/x", state=LockState.LOCKED, commit="a" * 40, files=files, path=path)


def place(*seen: FileSeen) -> ModelPlace:
    entry = entry_of(*(one.file for one in seen))
    mount, inner = mount_and_model_dir(STORE, entry)
    return place_of(entry, mount_dir=mount, model_dir=inner, is_there=True, seen=seen)


def test_the_repository_folder_is_mounted_and_the_snapshot_lies_in_it() -> None:
    found = place(FileSeen(file=locked("a"), presence=Presence.WHOLE))
    assert str(found.mount_dir) == "/store/models--org--x"
    assert str(found.model_dir) == f"snapshots/{'a' * 40}"
    assert str(found.host_dir) == f"/store/models--org--x/snapshots/{'a' * 40}"


def test_a_folder_of_the_users_is_mounted_itself_but_a_cache_snapshot_with_its_repository() -> None:
    assert mount_and_model_dir(STORE, entry_of(path="/data/x")) == (
        PurePosixPath("/data/x"),
        PurePosixPath("."),
    )
    mount, inner = mount_and_model_dir(STORE, entry_of(path="/hub/models--org--x/snapshots/aa"))
    assert (str(mount), str(inner)) == ("/hub/models--org--x", "snapshots/aa")


def test_links_reach_the_blob_from_any_depth() -> None:
    assert link_target(locked("a")) == f"../../blobs/{'c' * 64}"
    assert link_target(locked("d/e/a")) == f"../../../../blobs/{'c' * 64}"


def test_names_follow_the_cache() -> None:
    assert repo_folder(STORE, "org/x-y") == STORE / "models--org--x-y"
    assert str(lock_path(STORE, "org/x")) == "/store/.locks/models--org--x/kitctl.lock"
    assert name_of_folder(PurePosixPath("/hub/models--org--x/snapshots/aa")) == "org/x"
    assert name_of_folder(PurePosixPath("/data/Kimi")) == "local/Kimi"


def test_missing_bytes_count_parts_off() -> None:
    found = place(
        FileSeen(file=locked("a"), presence=Presence.WHOLE, size_bytes=10),
        FileSeen(file=locked("b"), presence=Presence.ABSENT, part_bytes=4),
        FileSeen(file=locked("c"), presence=Presence.WRONG_SIZE, size_bytes=3),
        FileSeen(file=locked("d"), presence=Presence.BLOB, size_bytes=10),
    )
    assert (found.missing_bytes, found.total_bytes, found.is_complete) == (16, 40, False)
    assert [file.path for file in found.missing] == ["b", "c"]


def test_nothing_is_known_to_be_there_of_a_reconstructed_model() -> None:
    entry = ModelEntry(repo="org/x", state=LockState.RECONSTRUCTED, stated_size_bytes=7)
    found = place_of(entry, mount_dir=STORE, model_dir=STORE, is_there=True, seen=())
    assert (found.missing_bytes, found.is_complete) == (7, False)


def test_a_reconstructed_model_is_mounted_by_no_commit_that_it_could_have() -> None:
    entry = ModelEntry(repo="org/big", state=LockState.RECONSTRUCTED)
    mount, inner = mount_and_model_dir(PurePosixPath("/store"), entry)
    assert (str(mount), str(inner)) == ("/store/models--org--big", "snapshots/unlocked")


def test_what_the_kit_ships_is_named_by_its_content() -> None:
    def folder(*files: LockedFile) -> str:
        entry = ModelEntry(repo="kitctl/demo", state=LockState.SHIPPED, files=files)
        return str(mount_and_model_dir(STORE, entry)[1])

    one, two = locked("a"), locked("b")
    assert re.fullmatch(r"snapshots/[0-9a-f]{40}", folder(one, two))
    assert folder(one, two) == folder(two, one)
    assert len({folder(one), folder(two), folder(one, two), folder(locked("a", 11))}) == 4


def test_each_file_gets_the_cheapest_step_that_proves_it() -> None:
    found = place(
        FileSeen(file=locked("keep"), presence=Presence.WHOLE, size_bytes=10),
        FileSeen(file=locked("bad"), presence=Presence.WHOLE, size_bytes=10),
        FileSeen(file=locked("link"), presence=Presence.BLOB, size_bytes=10),
        FileSeen(file=locked("near"), presence=Presence.ABSENT),
        FileSeen(file=locked("far"), presence=Presence.ABSENT, part_bytes=2),
        FileSeen(file=locked("fetch", 99), presence=Presence.ABSENT, part_bytes=9),
    )
    reusable = {
        "near": Reusable(path=PurePosixPath("/hf/near"), is_same_device=True),
        "far": Reusable(path=PurePosixPath("/nfs/far"), is_same_device=False),
    }
    steps = plan_pull(found, bad={"bad"}, reusable=reusable)
    assert [(step.file.path, step.step, step.writes_bytes) for step in steps] == [
        ("fetch", Step.FETCH, 90),
        ("bad", Step.FETCH, 10),
        ("far", Step.COPY, 8),
        ("keep", Step.KEEP, 0),
        ("link", Step.LINK, 0),
        ("near", Step.HARDLINK, 0),
    ]
    assert bytes_written(steps) == 108
