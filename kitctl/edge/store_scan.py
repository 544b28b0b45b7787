"""List what a store holds on disk; remove files and folders of it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from kitctl.edge.transfer import disk_error
from kitctl.store.layout import repo_of_folder
from kitctl.store.on_disk import BlobOnDisk, Removal, RepoOnDisk

_BLOCK_BYTES = 512


def scan_store(store_dir: str) -> tuple[RepoOnDisk, ...]:
    """The repositories of a store by name; empty without the store."""
    folders = sorted(Path(store_dir).expanduser().absolute().glob("models--*"))
    return tuple(scan_repo(str(folder)) for folder in folders if folder.is_dir())


def absolute(path: str) -> str:
    """``path`` from the root on, ``~`` resolved, links kept."""
    return str(Path(path).expanduser().absolute())


def is_folder(path: str) -> bool:
    """Whether ``path`` is a folder."""
    return Path(path).is_dir()


def scan_repo(path: str) -> RepoOnDisk:
    """One repository's folder: its blobs, and which of them each snapshot links to."""
    folder = Path(path)
    snapshots: dict[str, frozenset[str]] = {}
    plain = 0
    for snapshot in sorted(folder.glob("snapshots/*")):
        names, taken = _links_below(snapshot)
        snapshots[snapshot.name] = names
        plain += taken
    blobs = tuple(_blob(path) for path in sorted(folder.glob("blobs/*")) if path.is_file())
    return RepoOnDisk(
        repo=repo_of_folder(folder.name),
        folder=PurePosixPath(folder),
        blobs=blobs,
        snapshots=snapshots,
        plain_bytes=plain,
    )


def _blob(path: Path) -> BlobOnDisk:
    seen = path.lstat()
    age_s = max(0.0, time.time() - seen.st_mtime)
    return BlobOnDisk(name=path.name, size_bytes=seen.st_blocks * _BLOCK_BYTES, age_s=age_s)


def _links_below(snapshot: Path) -> tuple[frozenset[str], int]:
    """Names of the blobs that the snapshot links to, and the bytes of its files that are no links."""
    names, plain = set[str](), 0
    for base, _, files in os.walk(snapshot):
        for name in files:
            path = Path(base) / name
            if path.is_symlink():
                names.add(PurePosixPath(path.readlink()).name)
            else:
                plain += path.stat().st_blocks * _BLOCK_BYTES
    return frozenset(names), plain


def remove_all(removals: Sequence[Removal]) -> None:
    """Remove each file or folder. Raises KitError ``store-unwritable`` (exit 3)."""
    for removal in removals:
        path = Path(removal.path)
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as refused:
            raise disk_error(refused, path) from refused
