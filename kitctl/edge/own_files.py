"""Read kitctl's own files and kit: their hashes on disk, and those that a wheel or a commit names."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path

import kitctl
from kitctl.edge.process import Finished, run_process
from kitctl.edge.store_files import git_blob_head
from kitctl.kit.own_files import OwnFiles, read_record

_GIT_TIMEOUT_S = 60
_SOURCE = ("kitctl", "images", "compose", "models.lock")
_KIT = ("images", "compose", "models.lock")


def see_package() -> OwnFiles:
    """The installed package against its wheel's RECORD, a source tree against its commit."""
    package = Path(kitctl.__file__).parent
    site = package.parent
    record = _record_of(site)
    if record is None:
        return _see_commit(site, _SOURCE)
    wanted = read_record(record)
    unknown = [path for path in _files_below(package, site) if path not in wanted]
    return OwnFiles(
        root=str(package),
        against=f"the wheel's RECORD (kitctl {kitctl.__version__})",
        wanted=wanted,
        found=_hashes(site, wanted, _record_hash),
        unknown=tuple(unknown),
    )


def see_kit(kit_dir: str) -> OwnFiles | None:
    """The kit's folder against its repository's commit; ``None`` when ``see_package`` covers it already."""
    kit, package = Path(kit_dir).resolve(), Path(kitctl.__file__).resolve().parent
    is_own = kit in (package / "_kit", package.parent)
    return None if is_own else _see_commit(kit, _KIT)


def _record_of(site: Path) -> str | None:
    """The RECORD that names the package below ``site``; ``None`` for a source tree."""
    for found in metadata.distributions(name="kitctl", path=[str(site)]):
        text = found.read_text("RECORD")
        if text and "\nkitctl/__init__.py," in f"\n{text}":
            return text
    return None


def _see_commit(root: Path, names: tuple[str, ...]) -> OwnFiles:
    commit = _git(root, "rev-parse", "HEAD")
    listed = _git(root, "ls-tree", "-r", "-z", "HEAD", "--", *names)
    status = _git(root, "status", "--porcelain", "-z", "--untracked-files=all", "--", *names)
    for answer in (commit, listed, status):
        if not answer.ok:
            said = (answer.failure or answer.stderr).strip().splitlines()[-1:] or ["git fails"]
            return _unproven(
                root, f"neither an installed wheel nor a git repository that can be read: {said[0]}"
            )
    wanted = _blobs(listed.stdout)
    if not wanted:
        return _unproven(root, "its git repository holds none of its files")
    return OwnFiles(
        root=str(root),
        against=f"commit {commit.stdout.strip()[:12]}",
        wanted=wanted,
        found=_hashes(root, wanted, _git_hash),
        unknown=tuple(row[3:] for row in status.stdout.split("\0") if row.startswith("??")),
    )


def _git(root: Path, *words: str) -> Finished:
    return run_process(("git", "-C", str(root), *words), timeout_s=_GIT_TIMEOUT_S)


def _unproven(root: Path, reason: str) -> OwnFiles:
    return OwnFiles(root=str(root), wanted={}, found={}, reason=reason)


def _blobs(listed: str) -> dict[str, str]:
    """Path to blob id in ``git ls-tree -r -z``; links and submodules are no files."""
    rows = [row.partition("\t") for row in listed.split("\0") if row]
    return {path: head.split()[2] for head, _, path in rows if head.startswith("100")}


def _files_below(folder: Path, root: Path) -> list[str]:
    """Relative paths of the files below ``folder``, without Python's caches."""
    found = (path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    return [str(path.relative_to(root)) for path in found if "__pycache__" not in path.parts]


def _hashes(root: Path, paths: Iterable[str], hash_of: Callable[[bytes], str]) -> dict[str, str]:
    """The hash of each file that is there and no link."""
    there = [path for path in paths if (root / path).is_file() and not (root / path).is_symlink()]
    return {path: hash_of((root / path).read_bytes()) for path in there}


def _record_hash(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
    return f"sha256={digest.decode()}"


def _git_hash(content: bytes) -> str:
    return hashlib.sha1(git_blob_head(len(content)) + content, usedforsecurity=False).hexdigest()
