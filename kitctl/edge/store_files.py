"""Look at the files of a model store: where they lie, their sizes, their first bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath

from kitctl.edge.environment import variable
from kitctl.errors import Exit, KitError
from kitctl.kit.models_lock import LockedFile, ModelEntry
from kitctl.store.layout import blob_path, mount_and_model_dir, part_path
from kitctl.store.place import FileSeen, ModelPlace, Presence, place_of
from kitctl.store.safetensors import (
    LENGTH_BYTES,
    Header,
    HeaderFaultError,
    header_length,
    judge_header,
    read_index,
)
from kitctl.store.verdict import (
    Fault,
    FileVerdict,
    judge_first_bytes,
    judge_index,
    judge_presence,
    missing_shards,
)

SMALL_FILE_BYTES = 4 * 1024**2
"""Files up to this size are hashed by the quick check too: a thousandth of a second each."""


def default_store() -> str:
    """The Hugging Face cache: ``HF_HUB_CACHE``, else ``HF_HOME/hub``, else ``~/.cache/huggingface/hub``."""
    stated = variable("HF_HUB_CACHE") or variable("HUGGINGFACE_HUB_CACHE")
    if stated:
        return str(Path(stated).expanduser().absolute())
    caches = Path(variable("XDG_CACHE_HOME") or "~/.cache")
    home = Path(variable("HF_HOME") or caches / "huggingface")
    return str((home / "hub").expanduser().absolute())


def store_at(named: str | None) -> str:
    """The store that the user names, else the default. Raises KitError ``no-store`` (exit 2) for what is no folder."""
    store = named or default_store()
    place = Path(store).expanduser().absolute()
    there = next(path for path in (place, *place.parents) if path.exists() or path.is_symlink())
    if not there.is_dir():
        raise KitError(
            "no-store",
            f"{store} cannot be a model store: {there} is no folder",
            remedy="name a folder with --store DIR, or leave --store out for the Hugging Face cache",
            exit_code=Exit.USAGE,
        )
    return store


def locate_model(entry: ModelEntry, store_dir: str) -> ModelPlace:
    """Where ``entry`` lies below ``store_dir`` (or in its own folder), and what is there. Reads no bytes."""
    store = PurePosixPath(Path(store_dir).expanduser().absolute())
    mount_dir, model_dir = mount_and_model_dir(store, entry)
    seen = tuple(_look_at(file, mount_dir, model_dir, in_store=entry.path is None) for file in entry.files)
    is_there = Path(mount_dir / model_dir).is_dir()
    option = "" if str(store) == default_store() else f" --store {store}"
    return place_of(
        entry, mount_dir=mount_dir, model_dir=model_dir, is_there=is_there, seen=seen, store_option=option
    )


def _look_at(file: LockedFile, mount: PurePosixPath, model: PurePosixPath, *, in_store: bool) -> FileSeen:
    part_bytes = _size_of(part_path(mount, file)) if in_store else None
    path = Path(mount / model / file.path)
    try:
        size = path.stat().st_size
        real, root = path.resolve(strict=True), Path(mount).resolve()
        if not path.is_file():
            return FileSeen(file=file, presence=Presence.UNREADABLE, reason=f"{path} is not a file")
        if not real.is_relative_to(root):
            return FileSeen(file=file, presence=Presence.OUTSIDE, size_bytes=size, reason=f"{path} -> {real}")
        is_whole = size == file.size_bytes
        presence = Presence.WHOLE if is_whole else Presence.WRONG_SIZE
        return FileSeen(file=file, presence=presence, size_bytes=size, part_bytes=part_bytes or 0)
    except FileNotFoundError:
        has_blob = in_store and _size_of(blob_path(mount, file)) == file.size_bytes
        presence = Presence.BLOB if has_blob else Presence.ABSENT
        size_bytes = file.size_bytes if has_blob else None
        return FileSeen(file=file, presence=presence, size_bytes=size_bytes, part_bytes=part_bytes or 0)
    except OSError as refused:
        return FileSeen(file=file, presence=Presence.UNREADABLE, reason=str(refused))


def _size_of(path: PurePosixPath) -> int | None:
    try:
        return Path(path).stat().st_size
    except OSError:
        return None


def quick_verify(entry: ModelEntry, place: ModelPlace) -> tuple[FileVerdict, ...]:
    """What is wrong with the model's files as far as presence, size, headers, index and small files tell.

    Reads a few MB whatever the model's size. Empty means nothing wrong was found; flipped bytes inside a
    tensor are not looked for (that is the deep check).
    """
    verdicts = [verdict for verdict in map(judge_presence, place.seen) if verdict]
    whole = [seen.file for seen in place.seen if seen.presence in (Presence.WHOLE, Presence.WRONG_SIZE)]
    headers: dict[str, Header] = {}
    contents: list[FileVerdict] = []
    for file in whole:
        contents += _judge_file(file, Path(place.host_dir / file.path), headers)
    known = [file.path for file in entry.files]
    for file in whole:
        contents += _judge_shards(file, Path(place.host_dir / file.path), headers=headers, known=known)
    named = {verdict.path for verdict in contents}
    return (*(verdict for verdict in verdicts if verdict.path not in named), *contents)


def _judge_file(file: LockedFile, path: Path, headers: dict[str, Header]) -> list[FileVerdict]:
    try:
        with path.open("rb") as handle:
            wrong = judge_first_bytes(file.path, handle.read(256))
        if path.stat().st_size != file.size_bytes:
            return [wrong] if wrong else []
        if file.path.endswith(".safetensors"):
            headers[file.path] = read_header(path)
        elif file.size_bytes <= SMALL_FILE_BYTES:
            return _judge_small(file, path.read_bytes())
    except HeaderFaultError as wrong_header:
        cause = "is no whole safetensors file"
        return [FileVerdict(path=file.path, fault=Fault.HEADER, cause=cause, evidence=(str(wrong_header),))]
    except OSError as refused:
        return [
            FileVerdict(
                path=file.path, fault=Fault.UNREADABLE, cause="cannot be read", evidence=(str(refused),)
            )
        ]
    return []


def _judge_small(file: LockedFile, content: bytes) -> list[FileVerdict]:
    found = hash_of(file, content)
    if found == file.blob_name:
        return []
    evidence = (f"hash {found}, models.lock says {file.blob_name}",)
    return [FileVerdict(path=file.path, fault=Fault.HASH, cause="has other content", evidence=evidence)]


def hash_of(file: LockedFile, content: bytes) -> str:
    """The hash of ``content`` in the kind that ``file`` is locked with."""
    if file.sha256:
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(git_blob_head(len(content)) + content, usedforsecurity=False).hexdigest()


def git_blob_head(size_bytes: int) -> bytes:
    """What git hashes before a file's bytes."""
    return b"blob %d\0" % size_bytes


def read_header(path: Path) -> Header:
    """The header of a safetensors file. Raises HeaderFaultError, OSError."""
    size = path.stat().st_size
    with path.open("rb") as handle:
        length = header_length(handle.read(LENGTH_BYTES), size_bytes=size)
        return judge_header(handle.read(length), size_bytes=size)


def _judge_shards(
    file: LockedFile, path: Path, *, headers: dict[str, Header], known: list[str]
) -> list[FileVerdict]:
    if not file.path.endswith(".safetensors.index.json"):
        return []
    try:
        index = read_index(path.read_bytes())
    except (HeaderFaultError, OSError) as wrong:
        cause = "is no index of tensors"
        return [FileVerdict(path=file.path, fault=Fault.INDEX, cause=cause, evidence=(str(wrong),))]
    return [*missing_shards(file.path, index, known), *judge_index(file.path, index, headers)]
