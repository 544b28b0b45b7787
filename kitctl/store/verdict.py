"""What is wrong with a file of a model, and how is it told?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath

from kitctl.finding import Finding, Severity
from kitctl.kit.models_lock import LockState, ModelEntry
from kitctl.store.place import FileSeen, ModelPlace, Presence
from kitctl.store.safetensors import Header
from kitctl.store.sizes import size_text


class Fault(StrEnum):
    """What can be wrong with one file; each is repaired by fetching it anew, but for ``unreadable``."""

    MISSING = "file-missing"
    UNLINKED = "file-unlinked"
    SIZE = "file-size"
    POINTER = "lfs-pointer"
    HTML = "html-page"
    HEADER = "header-bad"
    INDEX = "index-bad"
    SHARD = "shard-missing"
    HASH = "hash-mismatch"
    ZEROS = "zeros"
    OUTSIDE = "link-outside"
    UNREADABLE = "file-unreadable"


@dataclass(frozen=True, kw_only=True)
class FileVerdict:
    """One fault of one file: what is wrong, and the evidence (sizes, hashes, offsets)."""

    path: str
    fault: Fault
    cause: str
    evidence: tuple[str, ...] = ()


_POINTER_START = b"version https://git-lfs.github.com/spec/"


def judge_presence(seen: FileSeen) -> FileVerdict | None:
    """The verdict of presence and size alone; ``None`` when the file is whole."""
    file = seen.file
    sizes = (f"{seen.size_bytes} bytes there, {file.size_bytes} in models.lock",)
    match seen.presence:
        case Presence.WHOLE:
            return None
        case Presence.ABSENT:
            part = (f"{seen.part_bytes} bytes of it are there from a pull that did not end",)
            evidence = part if seen.part_bytes else ()
            return FileVerdict(path=file.path, fault=Fault.MISSING, cause="is missing", evidence=evidence)
        case Presence.BLOB:
            return FileVerdict(path=file.path, fault=Fault.UNLINKED, cause="is not linked into its snapshot")
        case Presence.WRONG_SIZE:
            return FileVerdict(path=file.path, fault=Fault.SIZE, cause=_size_cause(seen), evidence=sizes)
        case Presence.OUTSIDE:
            cause = "is a link that leaves the folder which is mounted"
            fault = Fault.OUTSIDE
        case Presence.UNREADABLE:
            cause, fault = "cannot be read", Fault.UNREADABLE
    return FileVerdict(path=file.path, fault=fault, cause=cause, evidence=_reason(seen))


def _reason(seen: FileSeen) -> tuple[str, ...]:
    return (seen.reason,) if seen.reason else ()


def _size_cause(seen: FileSeen) -> str:
    found = seen.size_bytes or 0
    if found == 0:
        return "is empty"
    return "is cut short" if found < seen.file.size_bytes else "is too long"


def judge_first_bytes(path: str, head: bytes) -> FileVerdict | None:
    """Whether a file is in truth a git-lfs pointer, a web page, or nothing but zeros at its start."""
    start = head[:256].lstrip().lower()
    if head.startswith(_POINTER_START):
        cause = "is a git-lfs pointer, not the file itself"
        return FileVerdict(path=path, fault=Fault.POINTER, cause=cause, evidence=(_shown(head),))
    if start.startswith((b"<!doctype html", b"<html")):
        return FileVerdict(path=path, fault=Fault.HTML, cause="is a web page", evidence=(_shown(head),))
    return None


def _shown(head: bytes) -> str:
    return f"begins with {head[:48].decode('ascii', 'replace')!r}"


def judge_index(path: str, index: Mapping[str, str], headers: Mapping[str, Header]) -> list[FileVerdict]:
    """Whether every tensor of the index lies in the file that the index names.

    ``headers``: the readable headers by path. ``path``: the index file's own path.
    """
    folder = PurePosixPath(path).parent
    named: dict[str, set[str]] = {}
    for tensor, shard in index.items():
        named.setdefault(shard, set()).add(tensor)
    verdicts: list[FileVerdict] = []
    for shard, tensors in sorted(named.items()):
        header = headers.get(str(folder / shard))
        lost = sorted(tensors - header.tensors) if header else []
        if lost:
            cause = f"lacks {len(lost)} of the tensors that {path} places in it"
            verdicts.append(
                FileVerdict(path=str(folder / shard), fault=Fault.INDEX, cause=cause, evidence=(lost[0],))
            )
    return verdicts


def missing_shards(path: str, index: Mapping[str, str], known: Sequence[str]) -> list[FileVerdict]:
    """The shards that an index names and the folder or lock does not have."""
    folder = PurePosixPath(path).parent
    lost = sorted({str(folder / shard) for shard in set(index.values())} - set(known))
    cause = f"is named by {path} and is not there"
    return [FileVerdict(path=shard, fault=Fault.SHARD, cause=cause) for shard in lost]


def findings_of(entry: ModelEntry, place: ModelPlace, verdicts: Sequence[FileVerdict]) -> tuple[Finding, ...]:
    """What is to be known before this model is started: unlocked and broken files block, missing ones are only
    noted, since ``up`` fetches them."""
    if entry.state is LockState.RECONSTRUCTED:
        return (_unlocked(entry),)
    absent = [v for v in verdicts if v.fault is Fault.MISSING]
    broken = [v for v in verdicts if v.fault is not Fault.MISSING]
    found = [_missing(entry, place, absent)] if absent else []
    return (*found, *(_broken(entry, place, verdict) for verdict in broken))


def _unlocked(entry: ModelEntry) -> Finding:
    return Finding(
        code="model-unlocked",
        severity=Severity.BLOCK,
        cause=f"{entry.repo} is not locked: its entry is reconstructed and names no files",
        evidence=(entry.note,) if entry.note else (),
        remedy=f"kitctl models lock {entry.repo}",
        where=f'models.lock: models."{entry.repo}"',
    )


def _missing(entry: ModelEntry, place: ModelPlace, absent: Sequence[FileVerdict]) -> Finding:
    size = size_text(place.missing_bytes or 0)
    return Finding(
        code="model-missing",
        severity=Severity.NOTE,
        cause=f"{len(absent)} of {len(entry.files)} files of {entry.repo} are missing, {size} to fetch",
        evidence=tuple(verdict.path for verdict in absent[:5]),
        remedy=f"kitctl models pull {entry.repo}{place.store_option}",
        where=str(place.mount_dir),
    )


def _broken(entry: ModelEntry, place: ModelPlace, verdict: FileVerdict) -> Finding:
    mend = "pull" if verdict.fault in (Fault.UNLINKED, Fault.OUTSIDE) else "verify --repair"
    remedy = f"kitctl models {mend} {entry.repo}{place.store_option}"
    if entry.path is not None:
        remedy = f"restore {verdict.path} in {entry.path}, or kitctl models rm {entry.repo} and pull it"
    return Finding(
        code=f"model-{verdict.fault}",
        severity=Severity.BLOCK,
        cause=f"{entry.repo}: {verdict.path} {verdict.cause}",
        evidence=verdict.evidence,
        remedy=remedy,
        where=str(place.host_dir / verdict.path),
    )
