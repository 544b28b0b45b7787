"""Folders that belong to others, file systems, remembered proofs."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kitctl.edge.attest import Attestations, deep_verify, stat_key
from kitctl.edge.room import check_writable, free_bytes
from kitctl.edge.store_lock import hold
from kitctl.edge.transfer import Patience
from kitctl.errors import KitError
from kitctl.kit.models_lock import FileRole, LockedFile
from kitctl.store.verdict import Fault

NOBODY = 65534
HELLO = LockedFile(
    path="hello",
    size_bytes=5,
    role=FileRole.OTHER,
    sha256="2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
)


@pytest.fixture
def roots_folder() -> Iterator[Path]:
    """A folder of root's that everybody may enter and nobody else may write."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def as_nobody(act: Callable[[], None]) -> str:
    """What KitError ``act`` raises for a user without rights, as ``code: evidence``, in a child."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(NOBODY)
        try:
            act()
            said = "nothing"
        except KitError as refused:
            said = f"{refused.code}: {refused.cause} | {' | '.join(refused.evidence)} | {refused.remedy}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as heard:
        said = heard.read()
    os.waitpid(child, 0)
    return said


def test_a_store_of_another_owner_is_refused_with_the_owner_named(roots_folder: Path) -> None:
    said = as_nobody(lambda: check_writable(roots_folder / "models--org--x"))
    assert said == (
        f"store-unwritable: {roots_folder} cannot be written by user 65534 | {roots_folder} is not writable | "
        f"it belongs to user 0 | sudo chown -R 65534 {roots_folder}, or name a store of your own with --store"
    )


def test_the_lock_of_another_owners_store_is_refused_alike(roots_folder: Path) -> None:
    def take() -> None:
        with hold(roots_folder / ".locks" / "x" / "kitctl.lock", repo="org/x", wait_s=0, say=print):
            return

    assert as_nobody(take).startswith(f"store-unwritable: {roots_folder}")


def test_a_file_that_may_not_be_read_is_a_verdict(roots_folder: Path) -> None:
    (roots_folder / "hello").write_text("hello")
    (roots_folder / "hello").chmod(0o600)

    def verify() -> None:
        attestations = Attestations(str(roots_folder / "none"))
        verdicts = deep_verify(
            [(HELLO, roots_folder / "hello")],
            attestations=attestations,
            came=lambda n: None,
            stop=threading.Event(),
        )
        raise KitError(str(verdicts[0].fault), "", remedy="", exit_code=5)  # type: ignore[arg-type]

    assert as_nobody(verify).startswith("file-unreadable")


def test_a_lock_is_held_once_and_freed(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with hold(path, repo="org/x", wait_s=0, say=print):
        with pytest.raises(KitError) as caught, hold(path, repo="org/x", wait_s=0.3, say=print):
            raise AssertionError("held twice")
        assert (
            caught.value.cause == f"org/x is being filled by process {os.getpid()} on {os.uname().nodename}"
        )
    with hold(path, repo="org/x", wait_s=0, say=print):
        assert path.exists()


def proven(attestations: Attestations, path: Path) -> tuple[int, tuple[Fault, ...]]:
    """Bytes that were read, and the faults found."""
    read: list[int] = []
    known = attestations.is_proven(HELLO, path)
    verdicts = deep_verify(
        [(HELLO, path)], attestations=attestations, came=read.append, stop=threading.Event()
    )
    return (0 if known else sum(read)), tuple(verdict.fault for verdict in verdicts)


def test_a_proof_is_remembered_by_another_process_until_the_file_changes(tmp_path: Path) -> None:
    path, memory = tmp_path / "hello", str(tmp_path / "memory")
    path.write_text("hello")
    assert proven(Attestations(memory), path) == (5, ())
    assert proven(Attestations(memory), path) == (0, ())
    key = stat_key(path)
    path.write_text("jello")
    os.utime(path, ns=(0, 0))
    assert stat_key(path) != key
    assert proven(Attestations(memory), path) == (5, (Fault.HASH,))


def test_a_damaged_memory_costs_time_and_no_more(tmp_path: Path) -> None:
    path, memory = tmp_path / "hello", tmp_path / "memory"
    path.write_text("hello")
    memory.write_bytes(b"\xff\xfe nonsense\n\n1 2 3\n")
    assert proven(Attestations(str(memory)), path) == (5, ())


def test_a_memory_that_cannot_be_written_costs_time_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "hello"
    path.write_text("hello")
    assert proven(Attestations("/proc/nowhere/memory"), path) == (5, ())


def test_free_bytes_are_of_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    device, free = free_bytes(str(tmp_path / "a" / "b"))
    assert (device, free > 0) == (tmp_path.stat().st_dev, True)


def test_waits_grow_and_follow_the_server() -> None:
    patience = Patience(tries=6, stall_s=1)
    assert [patience.wait_s(failures, None) for failures in (0, 1, 2, 3, 9)] == [0.1, 1.0, 2.0, 4.0, 30.0]
    assert (patience.wait_s(1, 55.0), patience.wait_s(1, 9999.0)) == (55.0, 300.0)
