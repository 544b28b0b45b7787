"""Is there room, and may this user write, before the first byte is written?"""

from __future__ import annotations

import os
from pathlib import Path

from kitctl.edge.transfer import unwritable
from kitctl.errors import Exit, KitError
from kitctl.store.space import SpaceNeed, judge_space


def existing(path: Path) -> Path:
    """``path``, or the nearest folder above it that exists."""
    return next(one for one in (path, *path.parents) if one.exists())


def free_bytes(path: str) -> tuple[int, int]:
    """The file system that ``path`` is or will be on: its device number, and what this user may still write."""
    where = existing(Path(path).absolute())
    seen = os.statvfs(where)
    return where.stat().st_dev, seen.f_bavail * seen.f_frsize


def check_room(purpose: str, store_dir: str, needed_bytes: int) -> None:
    """Raises KitError ``disk-full`` (exit 3) when ``needed_bytes`` and a margin do not fit into the store."""
    device, free = free_bytes(store_dir)
    need = SpaceNeed(
        purpose=purpose, path=store_dir, device=device, free_bytes=free, needed_bytes=needed_bytes
    )
    for finding in judge_space([need]):
        raise KitError(
            finding.code,
            finding.cause,
            evidence=finding.evidence,
            remedy=finding.remedy,
            exit_code=Exit.REFUSED,
        )


def check_writable(folder: Path) -> None:
    """Raises KitError ``store-unwritable`` (exit 3) when a repository's folder cannot be filled."""
    for place in (folder, folder / "blobs", folder / "snapshots"):
        where = existing(place)
        if not os.access(where, os.W_OK | os.X_OK):
            raise unwritable(where, f"{where} is not writable")
