"""Which model files does the kit trust: repository, commit, and every file with its size and hash?

``models.lock`` is TOML, one table a model and one line a file, so that a change of one file is a change
of one line. It is written only by ``kitctl models lock`` and ``kitctl models add``. A model whose files were
never read from a hub is ``reconstructed``: its configuration serves plans; it has no files and no hashes.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any

import msgspec

from kitctl.errors import Exit, KitError
from kitctl.kit.near import did_you_mean
from kitctl.kit.typed import read_typed

LOCK_VERSION = 1
MAX_LOCK_CHARS = 64 * 1024**2
"""A lock of 100,000 files is 20 MB; what is longer is no lock and is not parsed."""

Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
GitSha1 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{40}$")]
SizeBytes = Annotated[int, msgspec.Meta(ge=0, le=2**60)]
_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")


class FileRole(StrEnum):
    """What a file is for."""

    WEIGHTS = "weights"
    CONFIG = "config"
    TOKENIZER = "tokenizer"
    CODE = "code"
    OTHER = "other"


class LockState(StrEnum):
    """Where an entry's facts come from.

    ``locked``: read from a hub, every hash known. ``reconstructed``: facts that public sources state; not
    fetched, not served. ``shipped``: the kit brings the files, every hash known. ``local``: hashed from the user's
    disk.
    """

    LOCKED = "locked"
    RECONSTRUCTED = "reconstructed"
    SHIPPED = "shipped"
    LOCAL = "local"


class LockedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file. Exactly one hash: ``sha256`` of the bytes (large files), or the git blob id (small files)."""

    path: str
    size_bytes: SizeBytes
    role: FileRole
    sha256: Sha256 | None = None
    git_sha1: GitSha1 | None = None

    @property
    def blob_name(self) -> str:
        """The name of the file's blob in the Hugging Face cache: its hash (a hub's ETag)."""
        return self.sha256 or self.git_sha1 or ""


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model of the lock. ``config_json`` is the text of its config.json, so that a plan works offline.

    ``stated_size_bytes`` is what public sources state of a model without files. ``path`` is the absolute
    folder of the user's own that holds the files, when they do not lie in the store. ``drafter_for`` names
    the model that a drafter was trained for. ``note`` says where reconstructed facts come from.
    """

    repo: str
    state: LockState
    commit: GitSha1 | None = None
    revision: str | None = None
    locked_on: str | None = None
    licence: str | None = None
    gated: bool | None = None
    drafter_for: str | None = None
    path: str | None = None
    stated_size_bytes: SizeBytes | None = None
    note: str | None = None
    config_json: str | None = None
    files: tuple[LockedFile, ...] = ()

    @property
    def is_proven(self) -> bool:
        """Whether every file has a hash to hold it against."""
        return self.state is not LockState.RECONSTRUCTED

    @property
    def content_hash(self) -> str:
        """One hash over all files, their names included (hexadecimal sha256): what names a model without a commit."""
        lines = (f"{file.path}\0{file.size_bytes}\0{file.blob_name}\n" for file in self.files)
        return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()

    @property
    def size_bytes(self) -> int | None:
        """Sum over the files; what sources state when there are none; ``None`` when neither is known."""
        if self.files:
            return sum(file.size_bytes for file in self.files)
        return self.stated_size_bytes

    @property
    def weights_bytes(self) -> int | None:
        """Sum over the weight files, ``None`` when the files are not known."""
        if not self.files:
            return None
        return sum(file.size_bytes for file in self.files if file.role is FileRole.WEIGHTS)


class ModelsLock(msgspec.Struct, frozen=True, kw_only=True):
    """The models by repository name, sorted."""

    models: tuple[ModelEntry, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Repository names, sorted."""
        return tuple(entry.repo for entry in self.models)


def read_models_lock(text: str, *, source: str = "models.lock") -> ModelsLock:
    """The lock that ``text`` holds. Raises KitError ``bad-lock`` (exit 2) with the path inside the file."""
    tree = _parse(text, source)
    if not tree:
        return ModelsLock()
    version = tree.pop("version", None)
    if version != LOCK_VERSION:
        raise _bad(source, "version", f"must be {LOCK_VERSION}, is {version!r}")
    models = tree.pop("models", {})
    if tree:
        first = sorted(tree)[0]
        raise _bad(source, first, f"unknown key, {did_you_mean(first, ['models', 'version'])}")
    if not isinstance(models, Mapping):
        raise _bad(source, "models", "must be a table of models")
    return ModelsLock(models=tuple(_read_entry(repo, models[repo], source) for repo in sorted(models)))


def _parse(text: str, source: str) -> dict[str, Any]:
    if len(text) > MAX_LOCK_CHARS:
        raise _bad(source, "", f"is longer than {MAX_LOCK_CHARS} characters")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as broken:
        raise _bad(source, "", f"is not valid TOML: {broken}") from broken


def _read_entry(repo: str, tree: Any, source: str) -> ModelEntry:
    place = f'models."{repo}"'
    if not is_repo_name(repo):
        raise _bad(source, place, "is not a repository name (OWNER/NAME)")
    if not isinstance(tree, Mapping):
        raise _bad(source, place, "must be a table")
    if "repo" in tree:
        raise _bad(source, f"{place}.repo", "unknown key: the table's name is the repository")
    entry = read_typed(
        {**tree, "repo": repo}, ModelEntry, source_of=lambda _: f"{source}: {place}", code="bad-lock"
    )
    for field, problem in _problems(entry):
        raise _bad(source, f"{place}.{field}", problem)
    return msgspec.structs.replace(entry, files=tuple(sorted(entry.files, key=lambda file: file.path)))


def _problems(entry: ModelEntry) -> Iterable[tuple[str, str]]:
    """What the types alone do not refuse: field path and problem."""
    if entry.state is LockState.LOCKED and entry.commit is None:
        yield "commit", "is missing: a locked model names its commit"
    if entry.is_proven and not entry.files:
        yield "files", f"is missing: a {entry.state} model names its files"
    if not entry.is_proven and entry.files:
        yield "files", f"a {entry.state} model has no proven files"
    if entry.state is LockState.LOCAL and entry.path is None:
        yield "path", "is missing: a local model names its folder"
    if entry.path is not None and not PurePosixPath(entry.path).is_absolute():
        yield "path", "must be absolute"
    yield from _config_problems(entry.config_json)
    yield from _file_problems(entry.files)


def _config_problems(config_json: str | None) -> Iterable[tuple[str, str]]:
    if config_json is None:
        return
    try:
        if not isinstance(json.loads(config_json), dict):
            yield "config_json", "must be one JSON object"
    except (ValueError, RecursionError) as broken:
        yield "config_json", f"is not valid JSON: {broken}"


def _file_problems(files: tuple[LockedFile, ...]) -> Iterable[tuple[str, str]]:
    seen: set[str] = set()
    for index, file in enumerate(files):
        if not is_safe_path(file.path):
            yield f"files[{index}].path", f"{file.path!r} is not a plain relative path"
        if (file.sha256 is None) == (file.git_sha1 is None):
            yield f"files[{index}]", "needs exactly one of sha256 and git_sha1"
        if file.path in seen:
            yield f"files[{index}].path", f"{file.path!r} is named twice"
        seen.add(file.path)


def is_repo_name(name: str) -> bool:
    """Whether ``name`` is a repository name of a hub: ``OWNER/NAME`` or ``NAME``, no ``--``, no ``..``."""
    return bool(_REPO.fullmatch(name)) and "--" not in name and ".." not in name and len(name) <= 200


def require_repo_name(name: str) -> None:
    """Raises KitError ``bad-repo`` (exit 2) for what cannot be a repository of a hub."""
    if not is_repo_name(name):
        raise KitError(
            "bad-repo",
            f"{name!r} is no repository name",
            remedy="name it as OWNER/NAME, with @REVISION for a branch, tag or commit of the hub",
            exit_code=Exit.USAGE,
        )


def is_safe_path(path: str) -> bool:
    """Whether ``path`` stays below the folder it is joined to: relative, no ``..``, no control characters."""
    parts = path.split("/")
    plain = all(part not in ("", ".", "..") for part in parts)
    return plain and "\\" not in path and path.isprintable() and all(len(p.encode()) <= 255 for p in parts)


def find_entry(lock: ModelsLock, repo: str) -> ModelEntry:
    """The entry of ``repo``. Raises KitError ``model-unknown`` (exit 2) with the nearest name."""
    for entry in lock.models:
        if entry.repo == repo:
            return entry
    raise KitError(
        "model-unknown",
        f"models.lock has no model {repo!r}",
        evidence=(did_you_mean(repo, lock.names),),
        remedy=f"kitctl models lock {repo}",
        exit_code=Exit.USAGE,
    )


def require_proven(entry: ModelEntry) -> None:
    """Raises KitError ``model-unlocked`` (exit 5) for an entry whose files were never read from a hub."""
    if entry.state is LockState.RECONSTRUCTED:
        raise KitError(
            "model-unlocked",
            f"{entry.repo} is not locked: its entry is reconstructed and names no files",
            evidence=(f"models.lock: models.{json.dumps(entry.repo)}.state = {json.dumps(entry.state)}",),
            remedy=f"kitctl models lock {entry.repo}",
            exit_code=Exit.FETCH,
        )


def choose_entries(
    lock: ModelsLock, names: Sequence[str], *, may_be_none: bool
) -> tuple[tuple[ModelEntry, ...], tuple[ModelEntry, ...]]:
    """The entries meant by ``names`` (none: all) that have proven files, and those that have none.

    Raises KitError ``model-unknown`` (exit 2); ``model-unlocked`` (exit 5) for a reconstructed entry that is
    named, or when nothing but what the kit ships is proven and something must be.
    """
    chosen = [find_entry(lock, name) for name in dict.fromkeys(names)] if names else list(lock.models)
    proven = tuple(entry for entry in chosen if entry.is_proven)
    has_own = any(entry.state is not LockState.SHIPPED for entry in proven)
    if names or not (has_own or may_be_none):
        for entry in chosen:
            require_proven(entry)
    return proven, tuple(entry for entry in chosen if not entry.is_proven)


def merge_locks(kit: ModelsLock, user: ModelsLock) -> ModelsLock:
    """Both locks; the user's entry wins by name."""
    merged = {entry.repo: entry for entry in (*kit.models, *user.models)}
    return ModelsLock(models=tuple(merged[repo] for repo in sorted(merged)))


def with_entry(lock: ModelsLock, entry: ModelEntry) -> ModelsLock:
    """The lock with ``entry`` put in or replaced."""
    return merge_locks(lock, ModelsLock(models=(entry,)))


def without_entry(lock: ModelsLock, repo: str) -> ModelsLock:
    """The lock without ``repo``."""
    return ModelsLock(models=tuple(entry for entry in lock.models if entry.repo != repo))


def _bad(source: str, path: str, problem: str) -> KitError:
    where = f"{source}: {path}" if path else source
    return KitError(
        "bad-lock",
        f"{where}: {problem}",
        remedy=f"write the entry anew with 'kitctl models lock REPO', or restore {source} from git",
        exit_code=Exit.USAGE,
    )
