"""Whether the engine's user may read a model: modes and owners, and a folder with one closed file."""

import os
import stat
from pathlib import Path

import pytest

from kitctl.edge.file_modes import closed_below
from kitctl.plan.read_access import check_read_access, may_read, uid_of
from kitctl.plan.types import PlannedModel


@pytest.mark.parametrize(
    ("mode", "owner", "uid", "may"),
    [
        (stat.S_IFREG | 0o644, 0, 10001, True),
        (stat.S_IFREG | 0o600, 0, 10001, False),
        (stat.S_IFREG | 0o640, 0, 10001, False),
        (stat.S_IFREG | 0o600, 10001, 10001, True),
        (stat.S_IFREG | 0o044, 10001, 10001, False),  # the owner's bits decide for the owner
        (stat.S_IFREG | 0o600, 1000, 0, False),  # root without capabilities is nobody special
        (stat.S_IFDIR | 0o755, 0, 10001, True),
        (stat.S_IFDIR | 0o744, 0, 10001, False),
        (stat.S_IFDIR | 0o711, 0, 10001, False),
    ],
)
def test_who_may_read(mode: int, owner: int, uid: int, may: bool) -> None:
    assert may_read(mode, owner=owner, uid=uid) is may


@pytest.mark.parametrize(("user", "uid"), [("", 0), ("10001:10001", 10001), ("7", 7), ("engine", None)])
def test_the_user_of_an_image(user: str, uid: int | None) -> None:
    assert uid_of(user) == uid


def test_links_are_judged_by_their_files_and_dangling_ones_are_left_alone(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots"
    blobs.mkdir()
    snapshot.mkdir()
    for name, mode in (("open", 0o644), ("closed", 0o600)):
        (blobs / name).write_text("x")
        (blobs / name).chmod(mode)
        (snapshot / name).symlink_to(f"../blobs/{name}")
    (snapshot / "gone").symlink_to("../blobs/gone")
    for folder in (tmp_path, blobs, snapshot):
        folder.chmod(0o755)
    found = closed_below(str(tmp_path), uid=os.getuid() + 1)
    assert found == (str(blobs / "closed"), str(snapshot / "closed"))


def test_the_remedy_is_a_command_on_the_mounted_folder() -> None:
    model = PlannedModel(model="a/b", role="target", folder="/models/b")
    assert check_read_access(model, (), uid=10001) is None
    found = check_read_access(model, tuple(f"/models/b/{n}" for n in range(5)), uid=10001)
    assert found is not None
    assert (found.code, found.remedy) == ("model-closed-to-engine", "chmod -R o+rX /models/b")
    assert found.evidence == ("/models/b/0", "/models/b/1", "/models/b/2", "and 2 more")
