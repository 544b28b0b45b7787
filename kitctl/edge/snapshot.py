"""Write a snapshot's links and refs, and clear what pulls left behind."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from kitctl.edge.files import write_atomic
from kitctl.edge.transfer import disk_error
from kitctl.kit.models_lock import LockedFile, ModelEntry
from kitctl.store.layout import LINK_SUFFIX, PART_SUFFIX, blob_path, link_target, ref_path
from kitctl.store.place import ModelPlace


def link_file(place: ModelPlace, file: LockedFile) -> None:
    """Let the snapshot's path of ``file`` point to its blob, by a link beside that is renamed into place."""
    path = Path(place.host_dir / file.path)
    try:
        if path.is_symlink() and str(path.readlink()) == link_target(file):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}{LINK_SUFFIX}")
        beside.unlink(missing_ok=True)
        beside.symlink_to(link_target(file))
        beside.replace(path)
    except OSError as failed:
        raise disk_error(failed, path) from failed


def hardlink_blob(place: ModelPlace, file: LockedFile, *, source: PurePosixPath) -> bool:
    """Take ``source`` in as the blob of ``file`` without a copy; false where the kernel does not let us."""
    blob = Path(blob_path(place.mount_dir, file))
    beside = blob.with_name(f"{blob.name}{LINK_SUFFIX}")
    try:
        blob.parent.mkdir(parents=True, exist_ok=True)
        beside.unlink(missing_ok=True)
        os.link(Path(source).resolve(), beside)
        beside.replace(blob)
    except OSError:
        beside.unlink(missing_ok=True)
        return False
    return True


def write_ref(place: ModelPlace, entry: ModelEntry) -> None:
    """Let the branch or tag that was locked name the locked commit, as other tools of the cache look it up."""
    if entry.revision is None or entry.commit is None or entry.revision == entry.commit:
        return
    path = Path(ref_path(place.mount_dir, entry.revision))
    if not path.is_file() or path.read_text(encoding="utf-8") != entry.commit:
        write_atomic(str(path), entry.commit)


def clear_parts(place: ModelPlace, entry: ModelEntry) -> int:
    """Remove the parts that no file of ``entry`` will continue; returns the bytes that this freed."""
    blobs = Path(place.mount_dir) / "blobs"
    wanted = {file.blob_name for file in entry.files}
    freed = 0
    for part in blobs.glob(f"*{PART_SUFFIX}"):
        name = part.name.removesuffix(PART_SUFFIX)
        if name not in wanted or (blobs / name).exists():
            freed += part.stat().st_size
            part.unlink()
    for beside in blobs.glob(f"*{LINK_SUFFIX}"):
        beside.unlink()
    return freed


def give_to_owner(folder: Path, store: Path) -> None:
    """When root fills a user's store, the user owns what came: hand over what belongs to root."""
    owner = store.stat()
    if os.geteuid() != 0 or owner.st_uid == 0:
        return
    below = folder.rglob("*") if folder.is_dir() else ()
    for path in (folder, *below):
        if path.lstat().st_uid == 0:
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
