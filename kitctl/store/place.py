"""Where does a model lie, and what of it is missing?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath

from kitctl.kit.models_lock import LockedFile, LockState, ModelEntry


class Presence(StrEnum):
    """How much of one file is there. ``blob``: the bytes are, the snapshot's link to them is not."""

    WHOLE = "whole"
    BLOB = "blob"
    WRONG_SIZE = "wrong-size"
    OUTSIDE = "outside"
    UNREADABLE = "unreadable"
    ABSENT = "absent"


@dataclass(frozen=True, kw_only=True)
class FileSeen:
    """One file as found. ``size_bytes`` of what is there, ``part_bytes`` of an unfinished transfer.

    ``reason`` says why a file is outside or unreadable.
    """

    file: LockedFile
    presence: Presence
    size_bytes: int | None = None
    part_bytes: int = 0
    reason: str | None = None

    @property
    def bytes_to_fetch(self) -> int:
        """What must still come over the network."""
        if self.presence in (Presence.WHOLE, Presence.BLOB, Presence.OUTSIDE):
            return 0
        return max(0, self.file.size_bytes - self.part_bytes)


@dataclass(frozen=True, kw_only=True)
class ModelPlace:
    """Where a model lies. Bind-mount ``mount_dir``; the model is ``mount_dir / model_dir`` and no link of it
    leaves the mount (files for which that is not so are ``outside``).

    ``is_there`` says whether the model's folder exists. ``missing_bytes`` is ``None`` when nothing is known
    of the model's files (a reconstructed entry without a stated size). ``store_option`` is what a command
    needs to find this store again: `` --store DIR``, or nothing for the default store.
    """

    repo: str
    state: LockState
    mount_dir: PurePosixPath
    model_dir: PurePosixPath
    is_there: bool
    seen: tuple[FileSeen, ...]
    total_bytes: int | None
    store_option: str = ""

    @property
    def host_dir(self) -> PurePosixPath:
        """The model's folder on the host."""
        return self.mount_dir / self.model_dir

    @property
    def missing(self) -> tuple[LockedFile, ...]:
        """The files that are absent or of the wrong size or cannot be read."""
        bad = (Presence.ABSENT, Presence.WRONG_SIZE, Presence.UNREADABLE)
        return tuple(seen.file for seen in self.seen if seen.presence in bad)

    @property
    def missing_bytes(self) -> int | None:
        """What a pull would still fetch. Nothing is known to be there of a reconstructed model."""
        if self.state is LockState.RECONSTRUCTED:
            return self.total_bytes
        return sum(seen.bytes_to_fetch for seen in self.seen)

    @property
    def is_complete(self) -> bool:
        """Whether every file is there with its size, reachable inside the mount."""
        return bool(self.seen) and all(seen.presence is Presence.WHOLE for seen in self.seen)


def place_of(
    entry: ModelEntry,
    *,
    mount_dir: PurePosixPath,
    model_dir: PurePosixPath,
    is_there: bool,
    seen: tuple[FileSeen, ...],
    store_option: str = "",
) -> ModelPlace:
    """The place of ``entry`` from what was seen on disk."""
    return ModelPlace(
        repo=entry.repo,
        state=entry.state,
        mount_dir=mount_dir,
        model_dir=model_dir,
        is_there=is_there,
        seen=seen,
        total_bytes=entry.size_bytes,
        store_option=store_option,
    )
