"""``kitctl models du``: what the store holds, in bytes on disk."""

from __future__ import annotations

import argparse

from kitctl.commands.models_common import add_store_argument, store_of
from kitctl.edge.lock_file import read_locks
from kitctl.edge.room import free_bytes
from kitctl.edge.store_scan import scan_store
from kitctl.result import Context, Result
from kitctl.store.on_disk import RepoOnDisk
from kitctl.store.sizes import size_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``models du``."""
    add_store_argument(parser)


def run(args: argparse.Namespace, context: Context) -> Result:
    """All repositories of the store, largest first, whether a lock names them or not."""
    store = store_of(args)
    locked = read_locks(context.kit_dir).merged.names
    repos = sorted(scan_store(store), key=lambda repo: -repo.size_bytes)
    free = free_bytes(store)[1]
    data = {
        "schema": "kitctl.models-du/1",
        "store": store,
        "free_bytes": free,
        "size_bytes": sum(repo.size_bytes for repo in repos),
        "repos": [_row(repo, is_locked=repo.repo in locked) for repo in repos],
    }
    lines = [_line(repo, is_locked=repo.repo in locked) for repo in repos]
    total = size_text(sum(repo.size_bytes for repo in repos))
    return Result(data=data, lines=(*lines, f"{total} in {store}, {size_text(free)} free there"))


def _row(repo: RepoOnDisk, *, is_locked: bool) -> dict[str, object]:
    return {
        "name": repo.repo,
        "folder": str(repo.folder),
        "size_bytes": repo.size_bytes,
        "leftover_bytes": sum(blob.size_bytes for blob in repo.leftover),
        "snapshots": sorted(repo.snapshots),
        "is_locked": is_locked,
    }


def _line(repo: RepoOnDisk, *, is_locked: bool) -> str:
    leftover = sum(blob.size_bytes for blob in repo.leftover)
    notes = [] if is_locked else ["not in models.lock"]
    notes += [f"{size_text(leftover)} left over"] if leftover else []
    return f"{size_text(repo.size_bytes):>8}  {repo.repo}{'  (' + ', '.join(notes) + ')' if notes else ''}"
