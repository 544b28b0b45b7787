"""What is wrong with a file becomes a finding that says what mends it."""

from __future__ import annotations

from pathlib import PurePosixPath

import msgspec
import pytest

from kitctl.finding import Severity
from kitctl.kit.models_lock import FileRole, LockedFile, LockState, ModelEntry
from kitctl.store.place import FileSeen, ModelPlace, Presence, place_of
from kitctl.store.safetensors import Header
from kitctl.store.verdict import (
    Fault,
    FileVerdict,
    findings_of,
    judge_first_bytes,
    judge_index,
    judge_presence,
    missing_shards,
)

FILE = LockedFile(path="a.safetensors", size_bytes=10, role=FileRole.WEIGHTS, sha256="c" * 64)
ENTRY = ModelEntry(repo="org/x", state=LockState.LOCKED, commit="a" * 40, files=(FILE,))
LEFT = "4 bytes of it are there from a pull that did not end"
STORE = PurePosixPath("/s/models--org--x")


def place(entry: ModelEntry = ENTRY, store_option: str = " --store /s") -> ModelPlace:
    seen = (FileSeen(file=FILE, presence=Presence.ABSENT),)
    inner = PurePosixPath("snapshots/a")
    return place_of(
        entry, mount_dir=STORE, model_dir=inner, is_there=True, seen=seen, store_option=store_option
    )


@pytest.mark.parametrize(
    ("presence", "size", "part", "verdict"),
    [
        (Presence.WHOLE, 10, 0, None),
        (Presence.ABSENT, None, 0, (Fault.MISSING, "is missing", ())),
        (Presence.ABSENT, None, 4, (Fault.MISSING, "is missing", (LEFT,))),
        (Presence.BLOB, 10, 0, (Fault.UNLINKED, "is not linked into its snapshot", ())),
        (Presence.WRONG_SIZE, 3, 0, (Fault.SIZE, "is cut short", ("3 bytes there, 10 in models.lock",))),
        (Presence.WRONG_SIZE, 0, 0, (Fault.SIZE, "is empty", ("0 bytes there, 10 in models.lock",))),
        (Presence.WRONG_SIZE, 30, 0, (Fault.SIZE, "is too long", ("30 bytes there, 10 in models.lock",))),
        (Presence.OUTSIDE, 10, 0, (Fault.OUTSIDE, "is a link that leaves the folder which is mounted", ("why",))),
        (Presence.UNREADABLE, None, 0, (Fault.UNREADABLE, "cannot be read", ("why",))),
    ],
)  # fmt: skip
def test_presence_gives_a_verdict(
    presence: Presence, size: int | None, part: int, verdict: tuple[Fault, str, tuple[str, ...]] | None
) -> None:
    reason = "why" if presence in (Presence.OUTSIDE, Presence.UNREADABLE) else None
    found = judge_presence(
        FileSeen(file=FILE, presence=presence, size_bytes=size, part_bytes=part, reason=reason)
    )
    assert (found and (found.fault, found.cause, found.evidence)) == verdict


def test_first_bytes_name_pointers_and_pages() -> None:
    pointer = judge_first_bytes("a", b"version https://git-lfs.github.com/spec/v1\noid")
    page = judge_first_bytes("a", b"\n <!DOCTYPE HTML><html>")
    assert (pointer and pointer.fault, page and page.fault) == (Fault.POINTER, Fault.HTML)
    assert judge_first_bytes("a", b'{"a": 1}') is None


def test_an_index_is_held_against_the_headers() -> None:
    index = {"t1": "one.safetensors", "t2": "two.safetensors", "t3": "two.safetensors"}
    headers = {"d/two.safetensors": Header(tensors=frozenset({"t2"}), bytes_by_dtype={})}
    (lost,) = judge_index("d/model.safetensors.index.json", index, headers)
    assert (lost.path, lost.fault, lost.evidence) == ("d/two.safetensors", Fault.INDEX, ("t3",))
    (gone,) = missing_shards("d/model.safetensors.index.json", index, ["d/two.safetensors"])
    assert (gone.path, gone.fault) == ("d/one.safetensors", Fault.SHARD)


def test_missing_files_are_one_note_with_the_bytes_to_fetch() -> None:
    (finding,) = findings_of(
        ENTRY, place(), [FileVerdict(path="a.safetensors", fault=Fault.MISSING, cause="is missing")]
    )
    assert (finding.code, finding.severity) == ("model-missing", Severity.NOTE)
    assert finding.cause == "1 of 1 files of org/x are missing, 10 B to fetch"
    assert finding.remedy == "kitctl models pull org/x --store /s"


@pytest.mark.parametrize(
    ("fault", "remedy"),
    [
        (Fault.SIZE, "kitctl models verify --repair org/x"),
        (Fault.OUTSIDE, "kitctl models pull org/x"),
        (Fault.UNLINKED, "kitctl models pull org/x"),
    ],
)
def test_each_broken_file_blocks_with_what_mends_it(fault: Fault, remedy: str) -> None:
    (finding,) = findings_of(
        ENTRY, place(store_option=""), [FileVerdict(path="a", fault=fault, cause="is bad")]
    )
    assert (finding.code, finding.severity, finding.remedy) == (f"model-{fault}", Severity.BLOCK, remedy)
    assert (finding.cause, finding.where) == ("org/x: a is bad", "/s/models--org--x/snapshots/a/a")


def test_a_folder_of_the_users_is_not_repaired_by_kitctl() -> None:
    mine = msgspec.structs.replace(ENTRY, path="/data/x")
    (finding,) = findings_of(mine, place(mine), [FileVerdict(path="a", fault=Fault.HASH, cause="is bad")])
    assert finding.remedy == "restore a in /data/x, or kitctl models rm org/x and pull it"


def test_a_reconstructed_model_blocks_as_unlocked() -> None:
    entry = ModelEntry(repo="org/x", state=LockState.RECONSTRUCTED, note="from public sources")
    (finding,) = findings_of(entry, place(), [])
    assert (finding.code, finding.severity) == ("model-unlocked", Severity.BLOCK)
    assert (finding.evidence, finding.remedy) == (("from public sources",), "kitctl models lock org/x")
