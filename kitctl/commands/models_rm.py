"""``kitctl models rm``: remove a model's files from the store, or forget a folder of the user's."""

from __future__ import annotations

import argparse
from pathlib import PurePosixPath

from kitctl.commands.models_common import add_store_argument, store_of
from kitctl.commands.models_list import stacks_by_model
from kitctl.edge.docker_engine import running_mounts
from kitctl.edge.kit_files import find_kit, load_kit_texts
from kitctl.edge.lock_file import Locks, read_locks, write_user_lock
from kitctl.edge.store_scan import absolute, is_folder, remove_all, scan_repo
from kitctl.errors import Exit, KitError
from kitctl.kit.catalog import all_stacks
from kitctl.kit.models_lock import ModelEntry, require_repo_name, without_entry
from kitctl.result import Context, Result
from kitctl.store.holders import holders_of, require_no_holder
from kitctl.store.layout import repo_folder, snapshot_name
from kitctl.store.on_disk import plan_removal
from kitctl.store.sizes import size_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``models rm``."""
    parser.add_argument("model", metavar="MODEL", help="a model of the lock or of the store")
    add_store_argument(parser)
    parser.add_argument(
        "--force", action="store_true", help="also when a lock names it or a running stack mounts it"
    )


def run(args: argparse.Namespace, context: Context) -> Result:
    """Raises KitError ``model-in-use`` (exit 3) while somebody needs it, ``not-in-store`` (exit 2).

    A broken stack may need it too: its error (exit 2) is raised, but with ``--force``.
    """
    require_repo_name(args.model)
    locks = read_locks(context.kit_dir)
    entry = next((e for e in locks.merged.models if e.repo == args.model), None)
    folder = repo_folder(PurePosixPath(absolute(store_of(args))), args.model)
    stacks, broken = all_stacks(load_kit_texts(find_kit(context.kit_dir)))
    if broken and not args.force:
        raise broken[0].error
    needed_by = PurePosixPath(entry.path) if entry and entry.path else folder
    holders = holders_of(
        needed_by,
        mounts=_mounts(context),
        is_locked=args.model in locks.kit.names,
        stacks=stacks_by_model(stacks).get(args.model, []),
    )
    if not args.force:
        require_no_holder(args.model, holders)
    if entry and entry.path:
        return _forget(locks, entry)
    if not is_folder(str(folder)):
        raise KitError(
            "not-in-store",
            f"{args.model} is not in this store",
            remedy="kitctl models du",
            exit_code=Exit.USAGE,
        )
    removals = plan_removal(scan_repo(str(folder)), snapshot=snapshot_name(entry) if entry else None)
    remove_all(removals)
    freed = sum(removal.size_bytes for removal in removals)
    data = {"schema": "kitctl.models-rm/1", "name": args.model, "folder": str(folder), "freed_bytes": freed}
    return Result(data=data, lines=(f"{args.model}: {size_text(freed)} freed in {folder}",))


def _mounts(context: Context) -> tuple[tuple[str, str], ...]:
    """Mounts of running containers; an engine that does not answer runs none."""
    try:
        return running_mounts()
    except KitError as unreachable:
        context.say(f"{unreachable.cause}: taken as nothing running")
        return ()


def _forget(locks: Locks, entry: ModelEntry) -> Result:
    """Take the entry out of the user's lock; a folder of the user's is never touched."""
    write_user_lock(locks, without_entry(locks.user, entry.repo))
    data = {"schema": "kitctl.models-rm/1", "name": entry.repo, "folder": entry.path, "freed_bytes": 0}
    return Result(data=data, lines=(f"{entry.repo}: forgotten; the files stay in {entry.path}",))
