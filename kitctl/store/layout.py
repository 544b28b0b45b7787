"""Where does a model lie in a store? The layout is the Hugging Face cache's.

``models--OWNER--NAME/blobs/HASH`` holds the bytes, ``snapshots/COMMIT/PATH`` a relative link to them, and
``refs/REVISION`` the commit. Every link stays inside the repository's folder, so that mounting that folder
alone leaves none dangling.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from kitctl.kit.models_lock import LockedFile, LockState, ModelEntry

PART_SUFFIX = ".kitctl-part"
"""A file on its way: the bytes from its start, hashed again before they are continued."""
LINK_SUFFIX = ".kitctl-link"
"""A link that is made beside its place and renamed into it."""
UNLOCKED_COMMIT = "unlocked"
_SNAPSHOTS = "snapshots"
_COMMIT_LENGTH = 40


def repo_folder(store: PurePosixPath, repo: str) -> PurePosixPath:
    """The folder of a repository: ``STORE/models--OWNER--NAME``."""
    return store / f"models--{repo.replace('/', '--')}"


def snapshot_name(entry: ModelEntry) -> str:
    """The name of the entry's snapshot folder: its commit.

    What the kit ships has none of a hub and is named by its content, so that two releases lie side by side; that
    of a reconstructed entry is not known yet: no folder has its name.
    """
    if entry.state is LockState.SHIPPED:
        return entry.content_hash[:_COMMIT_LENGTH]
    return entry.commit or UNLOCKED_COMMIT


def mount_and_model_dir(store: PurePosixPath, entry: ModelEntry) -> tuple[PurePosixPath, PurePosixPath]:
    """The folder to mount, and the model's folder relative to it.

    A user's own folder is mounted itself, but a snapshot inside a Hugging Face cache (its links leave the
    snapshot) is mounted with its repository's folder.
    """
    if entry.path is None:
        return repo_folder(store, entry.repo), PurePosixPath(_SNAPSHOTS, snapshot_name(entry))
    path = PurePosixPath(entry.path)
    if path.parent.name == _SNAPSHOTS:
        return path.parent.parent, PurePosixPath(_SNAPSHOTS, path.name)
    return path, PurePosixPath(".")


def blob_path(folder: PurePosixPath, file: LockedFile) -> PurePosixPath:
    """Where a repository folder keeps the bytes of ``file``."""
    return folder / "blobs" / file.blob_name


def part_path(folder: PurePosixPath, file: LockedFile) -> PurePosixPath:
    """Where the bytes of ``file`` gather until they are whole and proven."""
    return folder / "blobs" / f"{file.blob_name}{PART_SUFFIX}"


def link_target(file: LockedFile) -> str:
    """What the snapshot's link of ``file`` points to, relative to the link."""
    depth = len(PurePosixPath(file.path).parts)
    return "/".join([*[".."] * (depth + 1), "blobs", file.blob_name])


def ref_path(folder: PurePosixPath, revision: str) -> PurePosixPath:
    """The file that holds the commit of a branch or tag."""
    return folder / "refs" / revision


def lock_path(store: PurePosixPath, repo: str) -> PurePosixPath:
    """The file that whoever fills the repository's folder holds; caches of Hugging Face skip ``.locks``."""
    return store / ".locks" / f"models--{repo.replace('/', '--')}" / "kitctl.lock"


def name_of_folder(folder: PurePosixPath) -> str:
    """``OWNER/NAME`` of a snapshot in a Hugging Face cache, else ``local/FOLDER``."""
    repo = folder.parent.parent.name
    if folder.parent.name == _SNAPSHOTS and repo.startswith("models--"):
        return repo_of_folder(repo)
    return f"local/{folder.name}"


def repo_of_folder(name: str) -> str:
    """``OWNER/NAME`` of ``models--OWNER--NAME``."""
    return name.removeprefix("models--").replace("--", "/")
