"""``kitctl models lock``: read a model's commit, files and hashes from the hub into models.lock.

A model that the kit ships is read from the files that kitctl carries.
"""

from __future__ import annotations

import argparse

from kitctl.edge.clock import utc_date
from kitctl.edge.hub import read_hub_model, read_small_file
from kitctl.edge.lock_file import Locks, read_locks, write_entry
from kitctl.edge.shipped import read_shipped
from kitctl.kit.models_lock import LockState, ModelEntry, require_repo_name
from kitctl.result import Context, Result
from kitctl.store.hub_model import entry_of, require_safe_paths
from kitctl.store.sizes import size_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``models lock``."""
    parser.add_argument(
        "models", nargs="+", metavar="REPO[@REV]", help="a repository, at a branch, tag or commit"
    )
    parser.add_argument("--drafter-for", metavar="MODEL", help="the model that this drafter was trained for")
    parser.add_argument("--user", action="store_true", help="write your own lock instead of the kit's")


def run(args: argparse.Namespace, context: Context) -> Result:
    """Lock each model; all are read before one is written. Raises KitError ``hub-*`` (exit 5)."""
    locks = read_locks(context.kit_dir)
    entries = [_lock(word, locks, drafter_for=args.drafter_for, context=context) for word in args.models]
    rows, lines = [], []
    for entry in entries:
        path = write_entry(
            read_locks(context.kit_dir), entry, into_user=args.user or locks.is_users(entry.repo)
        )
        rows.append(_row(entry, path))
        files = f"{len(entry.files)} files, {size_text(entry.size_bytes or 0)}"
        named = f"commit {entry.commit}" if entry.commit else f"content {entry.content_hash}"
        lines.append(f"{entry.repo}: {named}, {files}, in {path}")
    return Result(data={"schema": "kitctl.models-lock/1", "models": rows}, lines=tuple(lines))


def _lock(word: str, locks: Locks, *, drafter_for: str | None, context: Context) -> ModelEntry:
    repo, _, revision = word.partition("@")
    old = next((entry for entry in locks.merged.models if entry.repo == repo), None)
    require_repo_name(repo)
    if old is not None and old.state is LockState.SHIPPED:
        return read_shipped(old)
    wanted = revision or (old.revision if old and old.revision else "main")
    model = read_hub_model(repo, wanted, say=context.say)
    require_safe_paths(model)
    bare = entry_of(model, revision=wanted, locked_on=utc_date(), config_json=None, old=old)
    return entry_of(
        model,
        revision=wanted,
        locked_on=utc_date(),
        config_json=_config_text(bare),
        old=old,
        drafter_for=drafter_for,
    )


def _config_text(entry: ModelEntry) -> str | None:
    """The published config.json, proven against its hash; ``None`` when the repository has none."""
    file = next((file for file in entry.files if file.path == "config.json"), None)
    return read_small_file(entry, file).decode("utf-8", "replace") if file else None


def _row(entry: ModelEntry, path: str) -> dict[str, object]:
    return {
        "name": entry.repo,
        "commit": entry.commit,
        "revision": entry.revision,
        "licence": entry.licence,
        "gated": entry.gated,
        "files": len(entry.files),
        "size_bytes": entry.size_bytes,
        "lock": path,
    }
