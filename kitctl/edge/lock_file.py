"""Read the kit's lock and the user's own; write the one that may be written."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from kitctl.edge.environment import config_dir
from kitctl.edge.files import read_text, read_text_if_there, write_atomic
from kitctl.edge.kit_files import find_kit
from kitctl.kit.models_lock import ModelEntry, ModelsLock, merge_locks, read_models_lock, with_entry
from kitctl.kit.models_lock_text import write_models_lock


@dataclass(frozen=True, kw_only=True)
class Locks:
    """The kit's lock and the user's own, with their paths. The user's entries win by name."""

    kit_path: str
    kit: ModelsLock
    user_path: str
    user: ModelsLock

    @property
    def merged(self) -> ModelsLock:
        """What counts."""
        return merge_locks(self.kit, self.user)

    def is_users(self, repo: str) -> bool:
        """Whether the entry of ``repo`` is the user's own."""
        return repo in self.user.names


def read_locks(kit_dir: str | None) -> Locks:
    """Both locks. Raises KitError ``no-kit`` or ``bad-lock`` (exit 2)."""
    kit_path = f"{find_kit(kit_dir)}/models.lock"
    user_path = f"{config_dir()}/models.lock"
    own = read_text_if_there(user_path)
    return Locks(
        kit_path=kit_path,
        kit=read_models_lock(read_text(kit_path), source=kit_path),
        user_path=user_path,
        user=read_models_lock(own, source=user_path) if own else ModelsLock(),
    )


def write_entry(locks: Locks, entry: ModelEntry, *, into_user: bool) -> str:
    """Put ``entry`` into the kit's lock, or into the user's when asked or when the kit may not be written.

    Returns the path written; nothing is written when the text stays the same.
    """
    mine = into_user or not _may_write(locks.kit_path)
    path, lock = (locks.user_path, locks.user) if mine else (locks.kit_path, locks.kit)
    text = write_models_lock(with_entry(lock, entry))
    if read_text_if_there(path) != text:
        write_atomic(path, text)
    return path


def write_user_lock(locks: Locks, lock: ModelsLock) -> None:
    """Replace the user's own lock."""
    write_atomic(locks.user_path, write_models_lock(lock))


def _may_write(path: str) -> bool:
    is_installed_copy = Path(path).parent.name == "_kit"
    return not is_installed_copy and os.access(path, os.W_OK) and os.access(Path(path).parent, os.W_OK)
