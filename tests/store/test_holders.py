"""Who still needs a model's files is told a line each."""

from pathlib import PurePosixPath

from kitctl.store.holders import holders_of

FOLDER = PurePosixPath("/store/models--org--x")


def test_mounts_of_the_folder_its_parents_and_its_parts_hold_it() -> None:
    mounts = [
        ("a", "/store/models--org--x"),
        ("b", "/store"),
        ("c", "/store/models--org--x/blobs"),
        ("d", "/store/m"),
    ]
    assert holders_of(FOLDER, mounts=mounts, is_locked=False, stacks=[]) == (
        "the running container a mounts /store/models--org--x",
        "the running container b mounts /store",
        "the running container c mounts /store/models--org--x/blobs",
    )


def test_the_lock_and_stacks_hold_it() -> None:
    found = holders_of(FOLDER, mounts=[], is_locked=True, stacks=["ep8", "ep4"])
    assert found == ("models.lock names it", "stacks use it: ep4, ep8")
    assert holders_of(FOLDER, mounts=[], is_locked=False, stacks=[]) == ()
