"""The models that kitctl brings itself: files of the package, copied into the store and proven like any other's."""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from kitctl.edge.package_data import package_path
from kitctl.errors import Exit, KitError
from kitctl.kit.models_lock import LockedFile, ModelEntry
from kitctl.store.hub_model import role_of
from kitctl.store.place import ModelPlace
from kitctl.store.pull_plan import Reusable


def shipped_folder(repo: str) -> Path:
    """Where the package carries the files of ``kitctl/NAME``: ``kitctl/data/NAME``."""
    return Path(package_path(PurePosixPath(repo).name))


def shipped_copies(entry: ModelEntry) -> dict[str, Reusable]:
    """The package's files of ``entry`` by path, each proven by its hash.

    Raises KitError ``shipped-model-differs`` (exit 5) when they are not those that the lock names: another
    release's lock, or a damaged installation.
    """
    folder = shipped_folder(entry.repo)
    wrong = tuple(file.path for file in entry.files if _sha256_of(folder / file.path) != file.sha256)
    if not wrong and entry.files:
        return {
            file.path: Reusable(path=PurePosixPath(folder / file.path), is_same_device=False)
            for file in entry.files
        }
    raise KitError(
        "shipped-model-differs",
        f"the files of {entry.repo} that this kitctl carries are not those that models.lock names",
        evidence=wrong[:5] or ("models.lock names no file",),
        remedy=f"kitctl models lock {entry.repo} writes its own hashes into the lock; or install kitctl anew",
        exit_code=Exit.FETCH,
    )


def read_shipped(old: ModelEntry) -> ModelEntry:
    """``old`` with the files and the configuration that the package carries now."""
    folder = shipped_folder(old.repo)
    files = (path for path in sorted(folder.iterdir()) if path.is_file())
    return replace(
        old,
        files=tuple(_locked(path) for path in files),
        config_json=(folder / "config.json").read_text(encoding="utf-8"),
    )


def open_to_all(place: ModelPlace) -> None:
    """Let every user read the model, whatever this user's umask is: the engine runs as another one."""
    folder = Path(place.mount_dir)
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)


def _locked(path: Path) -> LockedFile:
    return LockedFile(
        path=path.name, size_bytes=path.stat().st_size, role=role_of(path.name), sha256=_sha256_of(path)
    )


def _sha256_of(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
