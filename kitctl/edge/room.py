"""Is there room, and may this user write, before the first byte is written?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from kitctl.edge.store_files import default_store, locate_model
from kitctl.edge.streams import xet_cache, xet_is_there
from kitctl.edge.transfer import unwritable
from kitctl.errors import Exit, KitError
from kitctl.kit.models_lock import ModelEntry
from kitctl.store.place import Presence
from kitctl.store.space import SpaceNeed, judge_space


def existing(path: Path) -> Path:
    """``path``, or the nearest folder above it that exists."""
    return next(one for one in (path, *path.parents) if one.exists())


def free_bytes(path: str) -> tuple[int, int]:
    """The file system that ``path`` is or will be on: its device number, and what this user may still write."""
    where = existing(Path(path).absolute())
    seen = os.statvfs(where)
    return where.stat().st_dev, seen.f_bavail * seen.f_frsize


def has_nvidia_driver() -> bool:
    """Whether the NVIDIA driver is loaded on this machine (it makes this folder)."""
    return Path("/proc/driver/nvidia").is_dir()


def need_of(purpose: str, path: str, needed_bytes: int) -> SpaceNeed:
    """What ``purpose`` writes to ``path``, with the file system that it is or will be on."""
    device, free = free_bytes(path)
    return SpaceNeed(purpose=purpose, path=path, device=device, free_bytes=free, needed_bytes=needed_bytes)


def check_room(purpose: str, store_dir: str, *, needed_bytes: int, others: Sequence[SpaceNeed] = ()) -> None:
    """Raises KitError ``disk-full`` (exit 3) when ``needed_bytes`` and a margin do not fit into the store, or what
    ``others`` write does not fit beside them or into file systems of its own."""
    found = judge_space([need_of(purpose, store_dir, needed_bytes), *others])
    for finding in found:
        raise KitError(
            finding.code,
            finding.cause,
            evidence=tuple(line for one in found for line in one.evidence),
            remedy=finding.remedy,
            exit_code=Exit.REFUSED,
        )


def xet_cache_needs(fetched_bytes: int) -> tuple[SpaceNeed, ...]:
    """What the Xet client may keep of ``fetched_bytes`` in a folder of its own: nothing unless the user wants it."""
    if not fetched_bytes or not xet_is_there():
        return ()
    folder, limit_bytes = xet_cache()
    return (need_of("the Xet client's cache", folder, min(limit_bytes, fetched_bytes)),)


def check_writable(folder: Path) -> None:
    """Raises KitError ``store-unwritable`` (exit 3) when a repository's folder cannot be filled."""
    for place in (folder, folder / "blobs", folder / "snapshots"):
        where = existing(place)
        if not os.access(where, os.W_OK | os.X_OK):
            raise unwritable(where, f"{where} is not writable")


def check_room_for_all(
    entries: Sequence[ModelEntry], store_dir: str, *, others: Sequence[SpaceNeed] = ()
) -> None:
    """Raises KitError ``disk-full`` (exit 3) when the models fit one by one, but not together or not beside ``others``.

    Files that the user's own cache on the same file system has take no room: they are linked.
    """
    needed = sum(_bytes_to_write(entry, store_dir) for entry in entries)
    purpose = f"{len(entries)} models" if len(entries) > 1 else "".join(entry.repo for entry in entries)
    check_room(purpose, store_dir, needed_bytes=needed, others=(*xet_cache_needs(needed), *others))


def models_to_fetch(entries: Sequence[ModelEntry], store_dir: str) -> frozenset[str]:
    """The models of which something is still to be written into the store."""
    return frozenset(entry.repo for entry in entries if _bytes_to_write(entry, store_dir))


def _bytes_to_write(entry: ModelEntry, store_dir: str) -> int:
    cache = default_store()
    linked = frozenset[str]()
    if free_bytes(cache)[0] == free_bytes(store_dir)[0]:
        there = (Presence.WHOLE, Presence.BLOB)
        linked = frozenset(s.file.path for s in locate_model(entry, cache).seen if s.presence in there)
    seen = locate_model(entry, store_dir).seen
    return sum(one.bytes_to_fetch for one in seen if one.file.path not in linked)
