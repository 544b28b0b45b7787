"""Put a bundle's models into the store: hashed while they are written, renamed into place when they are the lock's."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from kitctl.edge.attest import Attestations, Proof, hash_path, stat_key
from kitctl.edge.bundle_reader import Objects
from kitctl.edge.room import check_writable
from kitctl.edge.snapshot import clear_parts, give_to_owner, link_file, write_ref
from kitctl.edge.store_files import locate_model
from kitctl.edge.store_lock import hold
from kitctl.edge.transfer import disk_error, new_hash, put_in_place
from kitctl.errors import Exit, KitError
from kitctl.kit.models_lock import LockedFile, LockState, ModelEntry
from kitctl.store.layout import blob_path, lock_path, part_path
from kitctl.store.place import ModelPlace


def in_store(entry: ModelEntry) -> ModelEntry:
    """The entry as the store holds it: a model that lay in a folder of the user's goes into the store too."""
    return replace(entry, path=None)


def entry_here(entry: ModelEntry, store_dir: str) -> ModelEntry:
    """The lock entry for this host: a ``local`` model now lies in the store."""
    if entry.state is not LockState.LOCAL:
        return entry
    return replace(entry, path=str(locate_model(in_store(entry), store_dir).host_dir))


def missing_files(entry: ModelEntry, store_dir: str) -> tuple[LockedFile, ...]:
    """The files whose bytes the store does not hold, proven by hash (remembered until a file changes)."""
    place, attestations = locate_model(in_store(entry), store_dir), Attestations()
    return tuple(file for file in entry.files if not _is_there(place, file, attestations))


def _is_there(place: ModelPlace, file: LockedFile, attestations: Attestations) -> bool:
    blob = Path(blob_path(place.mount_dir, file))
    try:
        if blob.stat().st_size != file.size_bytes:
            return False
        if attestations.is_proven(file, blob):
            return True
        digest = hash_path(file, blob, came=lambda count: None, stop=threading.Event())
    except OSError:
        return False
    if digest == file.blob_name:
        attestations.remember(Proof(key=stat_key(blob), digest=digest))
    return digest == file.blob_name


def place_model(
    entry: ModelEntry,
    objects: Objects,
    digests: dict[str, str],
    *,
    store_dir: str,
    missing: tuple[LockedFile, ...],
    came: Callable[[int], None],
    say: Callable[[str], None],
) -> None:
    """Write the ``missing`` files and link all of the model's. ``digests``: path to object.

    Raises KitError ``store-busy``, ``store-unwritable`` (exit 3), ``disk-full``, ``bundle-damaged`` (exit 5).
    """
    store, own = Path(store_dir).expanduser().absolute(), in_store(entry)
    lock = Path(lock_path(PurePosixPath(store), entry.repo))
    with hold(lock, repo=entry.repo, wait_s=0.0, say=say):
        place = locate_model(own, store_dir)
        check_writable(Path(place.mount_dir))
        attestations = Attestations()
        for file in {file.blob_name: file for file in missing}.values():
            blob = Path(blob_path(place.mount_dir, file))
            part = Path(part_path(place.mount_dir, file))
            _write(objects.chunks(digests[file.path]), file, part, blob, came=came)
            attestations.remember(Proof(key=stat_key(blob), digest=file.blob_name))
        for file in entry.files:
            link_file(place, file)
        write_ref(place, own)
        clear_parts(place, own)
        give_to_owner(Path(place.mount_dir), store)


def _write(
    chunks: Iterator[bytes], file: LockedFile, part: Path, blob: Path, *, came: Callable[[int], None]
) -> None:
    """One file, beside first. Its hash is the lock's own kind, so a git blob id is proven as such."""
    digest = new_hash(file)
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(part, flags, 0o644), "wb") as out:
            for chunk in chunks:
                digest.update(chunk)
                out.write(chunk)
                came(len(chunk))
            out.flush()
            os.fsync(out.fileno())
    except OSError as failed:
        part.unlink(missing_ok=True)
        raise disk_error(failed, part) from failed
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if digest.hexdigest() != file.blob_name:
        part.unlink()
        raise _other_file(file)
    put_in_place(part, blob)


def hash_both(path: str, file: LockedFile) -> str:
    """The sha256 of a file whose lock knows only its git blob id, which is proven on the way.

    Raises KitError ``bundle-source-changed``, ``file-unreadable`` (exit 5).
    """
    own, plain = new_hash(file), hashlib.sha256()
    for chunk in file_chunks(path):
        own.update(chunk)
        plain.update(chunk)
    if own.hexdigest() != file.blob_name:
        raise KitError(
            "bundle-source-changed",
            f"{path} is not the file that models.lock names",
            evidence=(f"models.lock: {file.blob_name}", f"file: {own.hexdigest()}"),
            remedy="kitctl models verify --repair fetches it anew; then run the export again",
            exit_code=Exit.FETCH,
        )
    return plain.hexdigest()


def file_chunks(path: str) -> Iterator[bytes]:
    """The file's bytes in chunks of 1 MiB. Raises KitError ``file-unreadable`` (exit 5)."""
    try:
        with Path(path).open("rb", buffering=0) as handle:
            while chunk := handle.read(1024**2):
                yield chunk
    except OSError as refused:
        raise KitError(
            "file-unreadable",
            f"{path} cannot be read: {refused.strerror}",
            remedy="see that you may read it and that its disk is well (dmesg), then run the export again",
            exit_code=Exit.FETCH,
        ) from refused


def _other_file(file: LockedFile) -> KitError:
    return KitError(
        "bundle-damaged",
        f"the bundle's {file.path} is not the file that its models.lock names",
        evidence=(f"models.lock: {file.blob_name}",),
        remedy="make the bundle again with kitctl bundle export; nothing of this file was kept",
        exit_code=Exit.FETCH,
    )
