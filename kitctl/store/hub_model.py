"""What does a hub say of a repository, and which entry of the lock does that make?"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

import msgspec

from kitctl.errors import Exit, KitError
from kitctl.kit.models_lock import FileRole, LockedFile, LockState, ModelEntry, is_safe_path


@dataclass(frozen=True, kw_only=True)
class HubFile:
    """One file as the hub lists it. ``sha256`` only for large files (LFS), ``xet_hash`` only on Xet storage."""

    path: str
    size_bytes: int
    git_sha1: str
    sha256: str | None
    xet_hash: str | None


@dataclass(frozen=True, kw_only=True)
class HubModel:
    """A repository at one commit. ``None``: the hub does not say."""

    repo: str
    commit: str
    licence: str | None
    gated: bool | None
    files: tuple[HubFile, ...]


_ROLES: tuple[tuple[FileRole, tuple[str, ...]], ...] = (
    (FileRole.WEIGHTS, ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.gguf", "*.onnx", "*.h5", "*.msgpack")),
    (
        FileRole.TOKENIZER,
        (
            "tokenizer*", "*.tiktoken", "*.model", "vocab.*", "merges.txt", "special_tokens_map.json",
            "added_tokens.json", "chat_template*",
        ),
    ),
    (FileRole.CODE, ("*.py",)),
    (FileRole.CONFIG, ("*.json",)),
)  # fmt: skip


def role_of(path: str) -> FileRole:
    """What a file is for, by its name."""
    name = PurePosixPath(path).name
    if name.endswith(".py"):
        return FileRole.CODE
    for role, patterns in _ROLES:
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            return role
    return FileRole.OTHER


def entry_of(
    model: HubModel,
    *,
    revision: str,
    locked_on: str,
    config_json: str | None,
    old: ModelEntry | None = None,
    drafter_for: str | None = None,
) -> ModelEntry:
    """The lock's entry of ``model``. What only the user knows (``drafter_for``) is kept of the ``old`` entry,
    and so is its date when nothing else changed.
    """
    entry = ModelEntry(
        repo=model.repo,
        state=LockState.LOCKED,
        commit=model.commit,
        revision=revision,
        locked_on=locked_on,
        licence=model.licence,
        gated=model.gated,
        drafter_for=drafter_for or (old.drafter_for if old else None),
        config_json=config_json,
        files=tuple(locked_file(file) for file in sorted(model.files, key=lambda file: file.path)),
    )
    if old and old == msgspec.structs.replace(entry, locked_on=old.locked_on):
        return old
    return entry


def locked_file(file: HubFile) -> LockedFile:
    """The lock's line of a hub's file: sha256 where the hub has one, else the git blob id."""
    return LockedFile(
        path=file.path,
        size_bytes=file.size_bytes,
        role=role_of(file.path),
        sha256=file.sha256,
        git_sha1=None if file.sha256 else file.git_sha1,
    )


def require_safe_paths(model: HubModel) -> None:
    """Raises KitError ``unsafe-path`` (exit 5) when a path would leave the folder it is written to."""
    unsafe = tuple(file.path for file in model.files if not is_safe_path(file.path))
    if unsafe:
        raise KitError(
            "unsafe-path",
            f"{model.repo} names files outside its own folder",
            evidence=unsafe[:5],
            remedy="do not use this repository",
            exit_code=Exit.FETCH,
        )


def changed_files(entry: ModelEntry, listed: tuple[HubFile, ...]) -> tuple[str, ...]:
    """How a hub's listing of the locked commit differs from the lock, a line a file; empty when it does not."""
    there = {file.path: locked_file(file) for file in listed}
    lines = []
    for file in entry.files:
        other = there.get(file.path)
        if other is None:
            lines.append(f"{file.path}: not there any more")
        elif other.size_bytes != file.size_bytes:
            lines.append(f"{file.path}: {other.size_bytes} bytes, models.lock says {file.size_bytes}")
        elif other.blob_name != file.blob_name:
            lines.append(f"{file.path}: hash {other.blob_name}, models.lock says {file.blob_name}")
    return tuple(lines)
