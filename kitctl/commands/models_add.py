"""``kitctl models add``: take in a model that lies in a folder of the user's; verified, not copied."""

from __future__ import annotations

import argparse
from pathlib import PurePosixPath

import msgspec

from kitctl.edge.clock import utc_date
from kitctl.edge.lock_file import read_locks, write_entry
from kitctl.edge.model_files import config_in
from kitctl.edge.take_in import hash_folder, model_folder
from kitctl.edge.verify import verify_model
from kitctl.kit.models_lock import LockState, ModelEntry, require_repo_name
from kitctl.result import Context, Result
from kitctl.store.layout import name_of_folder
from kitctl.store.sizes import size_text
from kitctl.store.verify_report import require_whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``models add``."""
    parser.add_argument(
        "path", metavar="PATH", help="the model's folder; it stays where it is and is only read"
    )
    parser.add_argument(
        "--name",
        metavar="MODEL",
        help="its name: that of a locked model, or your own (default: local/FOLDER)",
    )
    parser.add_argument("--drafter-for", metavar="MODEL", help="the model that this drafter was trained for")


def run(args: argparse.Namespace, context: Context) -> Result:
    """Verify the folder against the lock, or hash it into an entry of the user's own lock.

    Raises KitError ``no-model``, ``bad-repo`` (exit 2), ``local-model-broken`` (exit 5).
    """
    locks = read_locks(context.kit_dir)
    folder = model_folder(args.path)
    name = args.name or name_of_folder(PurePosixPath(folder))
    require_repo_name(name)
    known = next((e for e in locks.merged.models if e.repo == name and e.state is LockState.LOCKED), None)
    if known:
        entry = msgspec.structs.replace(known, path=folder)
    else:
        entry = _own_entry(name, folder, drafter_for=args.drafter_for, context=context)
    report = verify_model(entry, "/", deep=True, say=context.say).report
    require_whole(report)
    path = write_entry(locks, entry, into_user=True)
    data = {
        "schema": "kitctl.models-add/1",
        "name": name,
        "folder": folder,
        "state": str(entry.state),
        "files": len(entry.files),
        "size_bytes": entry.size_bytes,
        "lock": path,
    }
    size = size_text(entry.size_bytes or 0)
    return Result(
        data=data, lines=(f"{name}: {len(entry.files)} files, {size}, all proven, in {folder}", f"in {path}")
    )


def _own_entry(name: str, folder: str, *, drafter_for: str | None, context: Context) -> ModelEntry:
    files = hash_folder(folder, say=context.say, every_s=context.tell_every_s)
    return ModelEntry(
        repo=name,
        state=LockState.LOCAL,
        locked_on=utc_date(),
        path=folder,
        drafter_for=drafter_for,
        config_json=config_in(folder),
        files=files,
    )
