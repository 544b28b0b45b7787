"""What must a pull do with each file: nothing, link it, take it from another cache, or fetch it?"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath

from kitctl.kit.models_lock import LockedFile
from kitctl.store.place import FileSeen, ModelPlace, Presence


class Step(StrEnum):
    """``keep``: whole and linked. ``link``: the bytes are there. ``hardlink`` and ``copy``: from another cache on
    the same or on another file system. ``fetch``: from the hub."""

    KEEP = "keep"
    LINK = "link"
    HARDLINK = "hardlink"
    COPY = "copy"
    FETCH = "fetch"


@dataclass(frozen=True, kw_only=True)
class Reusable:
    """A proven copy of a file elsewhere on this machine."""

    path: PurePosixPath
    is_same_device: bool


@dataclass(frozen=True, kw_only=True)
class PullStep:
    """What happens to one file. ``writes_bytes``: what it will add to the store's file system."""

    file: LockedFile
    step: Step
    source: PurePosixPath | None
    writes_bytes: int


def plan_pull(
    place: ModelPlace, *, bad: Collection[str], reusable: Mapping[str, Reusable]
) -> tuple[PullStep, ...]:
    """The steps, largest file first. ``bad``: paths whose bytes were proven wrong; they count as absent."""
    steps = [_step(seen, seen.file.path in bad, reusable.get(seen.file.path)) for seen in place.seen]
    return tuple(sorted(steps, key=lambda step: (-step.file.size_bytes, step.file.path)))


def _step(seen: FileSeen, is_bad: bool, other: Reusable | None) -> PullStep:
    file = seen.file
    if not is_bad and seen.presence is Presence.WHOLE:
        return PullStep(file=file, step=Step.KEEP, source=None, writes_bytes=0)
    if not is_bad and seen.presence is Presence.BLOB:
        return PullStep(file=file, step=Step.LINK, source=None, writes_bytes=0)
    if other and other.is_same_device:
        return PullStep(file=file, step=Step.HARDLINK, source=other.path, writes_bytes=0)
    left = max(0, file.size_bytes - seen.part_bytes)
    if other:
        return PullStep(file=file, step=Step.COPY, source=other.path, writes_bytes=left)
    return PullStep(file=file, step=Step.FETCH, source=None, writes_bytes=left)


def bytes_written(steps: Sequence[PullStep]) -> int:
    """What the steps add to the store's file system."""
    return sum(step.writes_bytes for step in steps)
