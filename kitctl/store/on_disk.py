"""What does a store hold, and what of it is left over? Types of a store as scanned, and the judgement.

A blob is in use when a snapshot links to it. Left over are parts and ``.incomplete`` files of transfers that
ended long ago, and blobs that no snapshot links to. Whole snapshots are removed only by name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from kitctl.store.layout import LINK_SUFFIX, PART_SUFFIX

INCOMPLETE_SUFFIX = ".incomplete"
SETTLED_S = 3600.0
"""A transfer that wrote nothing for an hour is not going on."""


@dataclass(frozen=True, kw_only=True)
class BlobOnDisk:
    """One file below ``blobs``; ``size_bytes`` is what it takes on disk, ``age_s`` since it was last written."""

    name: str
    size_bytes: int
    age_s: float

    @property
    def is_unfinished(self) -> bool:
        """Whether it is a transfer's part: kitctl's, or one of Hugging Face's own client."""
        return self.name.endswith((PART_SUFFIX, INCOMPLETE_SUFFIX, LINK_SUFFIX))


@dataclass(frozen=True, kw_only=True)
class RepoOnDisk:
    """One repository's folder. ``snapshots``: blob names by snapshot name; ``plain_bytes`` in files that are no
    links (caches of hosts without links)."""

    repo: str
    folder: PurePosixPath
    blobs: tuple[BlobOnDisk, ...]
    snapshots: Mapping[str, frozenset[str]]
    plain_bytes: int

    @property
    def size_bytes(self) -> int:
        """What the folder takes on disk."""
        return sum(blob.size_bytes for blob in self.blobs) + self.plain_bytes

    @property
    def leftover(self) -> tuple[BlobOnDisk, ...]:
        """Unfinished transfers, and blobs that no snapshot links to."""
        linked = frozenset[str]().union(*self.snapshots.values())
        return tuple(blob for blob in self.blobs if blob.is_unfinished or blob.name not in linked)


@dataclass(frozen=True, kw_only=True)
class Removal:
    """One file or folder to remove, what it frees, and why it may go."""

    path: PurePosixPath
    size_bytes: int
    reason: str


def plan_prune(repos: Sequence[RepoOnDisk], *, wanted: Collection[str]) -> tuple[Removal, ...]:
    """What may be removed without a name being given, largest first.

    ``wanted`` are blob names that a lock names: their blobs and parts stay, since a pull goes on from them.
    """
    found = [
        Removal(path=repo.folder / "blobs" / blob.name, size_bytes=blob.size_bytes, reason=_reason(blob))
        for repo in repos
        for blob in repo.leftover
        if blob.age_s >= SETTLED_S and blob.name.removesuffix(PART_SUFFIX) not in wanted
    ]
    return tuple(sorted(found, key=lambda removal: (-removal.size_bytes, str(removal.path))))


def _reason(blob: BlobOnDisk) -> str:
    return "a transfer that did not end" if blob.is_unfinished else "no snapshot links to it"


def plan_removal(repo: RepoOnDisk, *, snapshot: str | None) -> tuple[Removal, ...]:
    """What goes when ``snapshot`` of ``repo`` is removed (``None``: all of it).

    Blobs that another snapshot links to stay; without another one the whole folder goes.
    """
    others = {name: blobs for name, blobs in repo.snapshots.items() if name != snapshot}
    if snapshot is None or not others:
        return (Removal(path=repo.folder, size_bytes=repo.size_bytes, reason="the whole repository"),)
    kept = frozenset[str]().union(*others.values())
    mine = repo.snapshots.get(snapshot, frozenset()) - kept
    gone = [
        Removal(
            path=repo.folder / "blobs" / blob.name, size_bytes=blob.size_bytes, reason="only linked from it"
        )
        for blob in repo.blobs
        if blob.name in mine
    ]
    folder = Removal(path=repo.folder / "snapshots" / snapshot, size_bytes=0, reason="the snapshot")
    return (folder, *gone)
