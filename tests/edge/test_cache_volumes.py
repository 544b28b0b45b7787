"""Cache volumes on the real engine: filled and read back as they were, unsafe ones refused, half-filled ones redone."""

from __future__ import annotations

import io
import secrets
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bundle.planted import KERNELS, cache, image_blobs, sha256
from kitctl_process import docker

from kitctl.edge.cache_volumes import (
    CacheContent,
    cache_volumes,
    drop_volume,
    fill_volume,
    has_content,
    is_half_filled,
    read_content,
)
from kitctl.errors import Exit, KitError

pytestmark = pytest.mark.docker
LABELS = {"io.kitctl.cache.image": "sha256:one"}
OWN = 10001


@pytest.fixture(scope="module")
def image(stub: str) -> Iterator[str]:
    """An image as the kit's: its containers run as 10001, and it brings a cache folder that holds something."""
    name = f"kitctl-cache-test:{secrets.token_hex(4)}"
    container = docker("create", stub)
    send(container, (member("", tarfile.DIRTYPE, mode=0o755), b""), (sized("baked", b"kernel"), b"kernel"))
    docker("commit", "--change", f"USER {OWN}:{OWN}", container, name)
    docker("rm", container)
    yield name
    docker("image", "rm", name)


@pytest.fixture
def volume() -> Iterator[str]:
    name = f"kitctl-cache-test{secrets.token_hex(4)}-gpu-120"
    yield name
    drop_volume(name)


def planted(volume: str) -> CacheContent:
    tree, _ = image_blobs()
    sizes = {sha256(data): len(data) for data in KERNELS.values()}
    return CacheContent(volume=volume, entries=cache(tree).entries, sizes=sizes)


def chunks(digest: str) -> Iterator[bytes]:
    data = next(data for data in KERNELS.values() if sha256(data) == digest)
    yield from (data[at : at + 100] for at in range(0, len(data), 100))


def put(volume: str, image: str, *members: tuple[tarfile.TarInfo, bytes]) -> None:
    """Write into the volume what no bundle would, as root."""
    container = docker("create", "--mount", mount(volume), image)
    send(container, *members)
    docker("rm", container)


def mount(volume: str) -> str:
    """The volume without what the image has in its place."""
    return f"type=volume,source={volume},target=/cache,volume-nocopy"


def send(container: str, *members: tuple[tarfile.TarInfo, bytes]) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    subprocess.run(["docker", "cp", "-", f"{container}:/"], input=stream.getvalue(), check=True)


def member(name: str, kind: bytes = tarfile.REGTYPE, *, mode: int = 0o644, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(f"cache/{name}")
    info.type, info.mode, info.linkname, info.devmajor, info.devminor = kind, mode, link, 1, 3
    return info


def owners(volume: str, image: str) -> dict[str, tuple[int, int, int]]:
    """User, group and mode of all that is in the volume, and of its root (``cache``)."""
    container = docker("create", "--mount", mount(volume), image)
    done = subprocess.run(["docker", "cp", f"{container}:/cache", "-"], capture_output=True, check=True)
    docker("rm", container)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        return {one.name: (one.uid, one.gid, one.mode) for one in archive}


def test_a_cache_comes_back_as_it_went_in(volume: str, image: str) -> None:
    """Bytes, modes, time stamps and links; all of it, the root too, is the engine's user's."""
    content = planted(volume)
    fill_volume(content, image, labels=LABELS, chunks=chunks)
    back = read_content(volume, image)
    assert {entry.path: entry for entry in back.entries} == {entry.path: entry for entry in content.entries}
    assert back.sizes == content.sizes
    assert cache_volumes(volume) == {volume: LABELS}
    assert (has_content(volume, image), is_half_filled(volume)) == (True, False)
    found = owners(volume, image)
    assert {row[:2] for row in found.values()} == {(OWN, OWN)}
    assert found["cache"][2] == 0o1777
    assert len(found) == len(content.entries) + 1
    assert docker("ps", "--all", "--quiet", "--filter", f"volume={volume}") == ""


def test_a_volume_of_folders_alone_is_empty(volume: str, image: str) -> None:
    docker("volume", "create", volume)
    assert not has_content(volume, image)
    put(volume, image, (member("torch", tarfile.DIRTYPE, mode=0o755), b""))
    assert not has_content(volume, image)


def test_two_names_of_one_file_are_two_files(volume: str, image: str) -> None:
    put(
        volume, image, (sized("a", b"kernel"), b"kernel"), (member("b", tarfile.LNKTYPE, link="cache/a"), b"")
    )
    entries = {entry.path: entry.sha256 for entry in read_content(volume, image).entries}
    assert entries == {"a": sha256(b"kernel"), "b": sha256(b"kernel")}


def sized(name: str, data: bytes, *, mode: int = 0o644) -> tarfile.TarInfo:
    info = member(name, mode=mode)
    info.size = len(data)
    return info


UNSAFE: dict[str, tuple[tarfile.TarInfo, str]] = {
    "a character device": (member("null", tarfile.CHRTYPE), "'null' is a device or a pipe"),
    "a block device": (member("disk", tarfile.BLKTYPE), "'disk' is a device or a pipe"),
    "a pipe": (member("pipe", tarfile.FIFOTYPE), "'pipe' is a device or a pipe"),
    "setuid": (member("su", mode=0o4755), "'su' has a setuid, setgid or sticky bit (mode 4755)"),
    "setgid": (member("sg", mode=0o2755), "'sg' has a setuid, setgid or sticky bit (mode 2755)"),
    "a sticky folder": (member("tmp", tarfile.DIRTYPE, mode=0o1777), "'tmp' has a setuid"),
    "a link outside": (member("out", tarfile.SYMTYPE, link="../etc/shadow"), "links to '../etc/shadow', outside"),
    "a link to the root": (member("abs", tarfile.SYMTYPE, link="/etc"), "links to '/etc', outside"),
    "a line break": (member("a\nb"), "is not a plain path below the volume"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSAFE)
def test_what_no_bundle_carries_is_refused(volume: str, image: str, name: str) -> None:
    info, said = UNSAFE[name]
    put(volume, image, (sized("kernel.so", b"kernel"), b"kernel"), (info, b""))
    with pytest.raises(KitError) as caught:
        read_content(volume, image)
    assert (caught.value.code, caught.value.exit_code) == ("cache-unsafe", Exit.REFUSED)
    assert said in caught.value.cause
    assert docker("ps", "--all", "--quiet", "--filter", f"volume={volume}") == ""


def broken(after: int) -> Callable[[str], Iterator[bytes]]:
    """Objects of which one turns out to be other bytes."""
    given = iter(range(after + 1))

    def give(digest: str) -> Iterator[bytes]:
        for chunk in chunks(digest):
            if next(given, None) is None:
                raise KitError("bundle-damaged", "other bytes", remedy="copy again", exit_code=Exit.FETCH)
            yield chunk

    return give


@pytest.mark.parametrize("after", [0, 3])
def test_bytes_that_rot_meanwhile_leave_no_volume(volume: str, image: str, after: int) -> None:
    with pytest.raises(KitError) as caught:
        fill_volume(planted(volume), image, labels=LABELS, chunks=broken(after))
    assert caught.value.code == "bundle-damaged"
    assert (cache_volumes(volume), is_half_filled(volume)) == ({}, False)


FILL = """
import sys, time; sys.path[:0] = {path!r}
from edge.test_cache_volumes import LABELS, chunks, planted
from kitctl.edge.cache_volumes import fill_volume
def slowly(digest):
    yield from chunks(digest)
    print("one", flush=True)
    time.sleep(60 if {end} == 0 else 0)
fill_volume(planted({volume!r}), {image!r}, labels=LABELS, chunks=slowly)
"""


def test_a_fill_that_was_killed_is_known_and_done_anew(volume: str, image: str) -> None:
    path = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]
    code = FILL.format(path=path, volume=volume, image=image, end=0)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "one\n"
        process.send_signal(signal.SIGKILL)
    assert cache_volumes(volume) == {volume: LABELS}
    assert is_half_filled(volume)
    with subprocess.Popen([sys.executable, "-c", code.replace("0 == 0", "1 == 0")], text=True) as again:
        assert again.wait(timeout=60) == 0
    assert not is_half_filled(volume)
    assert {e.path for e in read_content(volume, image).entries} == {e.path for e in planted(volume).entries}


def test_a_volume_that_a_container_has_is_not_filled(volume: str, image: str) -> None:
    container = docker("create", "--mount", mount(volume), image)
    try:
        with pytest.raises(KitError) as caught:
            fill_volume(planted(volume), image, labels=LABELS, chunks=chunks)
        assert (caught.value.code, caught.value.exit_code) == ("cache-in-use", Exit.REFUSED)
        assert not has_content(volume, image)
    finally:
        docker("rm", container)


def test_a_read_that_was_killed_leaves_nothing_behind(volume: str, image: str) -> None:
    fill_volume(planted(volume), image, labels=LABELS, chunks=chunks)
    left = docker("create", "--label", f"io.kitctl.cache-read={volume}", "--mount", mount(volume), image)
    assert read_content(volume, image).size_bytes == sum(len(data) for data in KERNELS.values())
    assert left not in docker("ps", "--all", "--quiet", "--no-trunc")
