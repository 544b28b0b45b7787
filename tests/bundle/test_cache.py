"""A cache's links lead into its own volume, whatever they pass on the way; its volume's name names one image."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitctl.bundle.cache import (
    CacheEntry,
    arch_of,
    entry_problems,
    is_of_other_image,
    stays_inside,
    volume_labels,
)

PREFIX = "kitctl-cache-0123456789ab-gpu-"
NAMES = st.sampled_from(["a", "b", "c"])
TARGETS = st.lists(st.sampled_from(["..", "a", "b", "c"]), min_size=1, max_size=6).map("/".join)


def folder(path: str) -> CacheEntry:
    return CacheEntry(path=path, mode=0o755, mtime_s=1)


@given(data=st.data())
def test_what_is_allowed_never_leaves_the_volume(data: st.DataObject) -> None:
    """Real folders and links on a disk: every path that is allowed resolves below the root."""
    entries = [folder("a"), folder("a/b"), folder("a/b/c")]
    for path in data.draw(st.lists(st.sampled_from(["b", "c", "a/a", "a/c", "a/b/a", "a/b/b"]), unique=True)):
        link = CacheEntry(path=path, mode=0o777, mtime_s=1, link=data.draw(TARGETS))
        entries += [link] if not list(entry_problems([*entries, link])) else []
    with tempfile.TemporaryDirectory() as room:
        root = Path(room).resolve() / "outer" / "volume"
        root.mkdir(parents=True)
        for entry in entries:
            if entry.link is None:
                (root / entry.path).mkdir()
            else:
                (root / entry.path).symlink_to(entry.link)
        for entry in entries:
            found = os.path.realpath(root / entry.path)
            assert found == str(root) or found.startswith(f"{root}/")


@pytest.mark.parametrize(
    ("path", "target", "inside"),
    [
        ("a/b/l", "../../x", True),
        ("a/b/l", "..", True),
        ("l", ".", True),
        ("l", "/cache/a/b", True),
        ("l", "..", False),
        ("a/b/l", "../../../x", False),
        ("a/l", "x/../../y", False),
        ("l", "/cache/../etc", False),
        ("l", "/cache", False),
        ("l", "/cachex/a", False),
        ("l", "/etc/passwd", False),
        ("l", "", False),
        ("l", "a\nb", False),
    ],
)
def test_links(path: str, target: str, inside: bool) -> None:
    assert stays_inside(path, target) is inside


@pytest.mark.parametrize(
    ("volume", "arch"),
    [
        (f"{PREFIX}120", "120"),
        (f"{PREFIX}90a-120", "90a-120"),
        (f"{PREFIX}cpu", "cpu"),
        (PREFIX, None),
        (f"{PREFIX}120-copy", None),
        ("kitctl-cache-other-gpu-120", None),
    ],
)
def test_the_name_of_a_volume_tells_its_architectures(volume: str, arch: str | None) -> None:
    assert arch_of(volume, PREFIX) == arch


def test_a_volume_names_its_image_by_either_digest() -> None:
    labels = volume_labels(config="sha256:c", target="sha256:t", arch="120")
    assert not is_of_other_image(labels, ["sha256:c"])
    assert not is_of_other_image(labels, ["sha256:t"])
    assert is_of_other_image(labels, ["sha256:x"])
    assert not is_of_other_image({"com.docker.compose.project": "mine"}, ["sha256:x"])
