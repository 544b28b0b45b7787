"""Take in a model that lies in a folder of the user's own: hash every file, copy none."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kitctl.edge.attest import Attestations, Proof, hash_path, stat_key
from kitctl.edge.gauge import Gauge, telling
from kitctl.errors import Exit, KitError
from kitctl.kit.models_lock import LockedFile, is_safe_path
from kitctl.store.hub_model import role_of

_SKIPPED = {".cache", ".git", ".locks"}


def model_folder(path: str) -> str:
    """The absolute folder of the model's files: ``path`` itself, or the one snapshot of a cache's repository folder.

    Raises KitError ``no-model`` (exit 2) when there is none, or several snapshots.
    """
    folder = Path(path).expanduser().absolute()
    snapshots = folder / "snapshots"
    if snapshots.is_dir():
        found = sorted(one for one in snapshots.iterdir() if one.is_dir())
        if len(found) == 1:
            return str(found[0])
        names = tuple(one.name for one in found)
        raise _no_model(folder, f"it holds {len(found)} snapshots", evidence=names)
    if not folder.is_dir() or not list_model_files(str(folder)):
        raise _no_model(folder, "it is no folder with files")
    return str(folder)


def list_model_files(folder: str) -> tuple[str, ...]:
    """Paths relative to ``folder`` of the files that a model consists of; caches and git's own are left out."""
    root = Path(folder)
    found = []
    for base, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in _SKIPPED]
        found += [str((Path(base) / name).relative_to(root)) for name in names]
    return tuple(sorted(path for path in found if is_safe_path(path)))


def hash_folder(folder: str, *, say: Callable[[str], None], every_s: float) -> tuple[LockedFile, ...]:
    """Every file of ``folder`` with its size and sha256, on all cores. Raises KitError ``file-unreadable`` (exit 2)."""
    root, attestations = Path(folder), Attestations()
    paths = list_model_files(folder)
    gauge = Gauge("hashing", sum((root / path).stat().st_size for path in paths))
    stop = threading.Event()

    def hash_one(path: str) -> LockedFile:
        key = stat_key(root / path)
        size = (root / path).stat().st_size
        bare = LockedFile(path=path, size_bytes=size, role=role_of(path), sha256="0" * 64)
        digest = hash_path(bare, root / path, came=gauge.came, stop=stop)
        if stat_key(root / path) == key:
            attestations.remember(Proof(key=key, digest=digest))
        return LockedFile(path=path, size_bytes=size, role=role_of(path), sha256=digest)

    try:
        with (
            telling(gauge.line, say, every_s=every_s),
            ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool,
        ):
            return tuple(pool.map(hash_one, paths))
    except OSError as refused:
        raise KitError(
            "file-unreadable",
            f"a file of {folder} cannot be read: {refused}",
            remedy=f"make all files below {folder} readable for you",
            exit_code=Exit.USAGE,
        ) from refused
    finally:
        stop.set()


def _no_model(folder: Path, why: str, *, evidence: tuple[str, ...] = ()) -> KitError:
    return KitError(
        "no-model",
        f"{folder} is not one model: {why}",
        evidence=evidence,
        remedy="name the folder that holds config.json and the weights (in a cache: .../snapshots/COMMIT)",
        exit_code=Exit.USAGE,
    )
