"""``kitctl models pull``: bring locked models into the store, whole and proven."""

from __future__ import annotations

import argparse

from kitctl.commands.models_common import (
    add_models_argument,
    add_store_argument,
    add_transfer_arguments,
    proven_entries,
    store_of,
    transfer_settings,
)
from kitctl.commands.models_room import image_needs
from kitctl.edge.lock_file import read_locks
from kitctl.edge.pull import Pulled, pull_model
from kitctl.edge.room import check_room_for_all, models_to_fetch
from kitctl.kit.models_lock import LockState, ModelEntry
from kitctl.result import Context, Result
from kitctl.store.sizes import duration_text, size_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``models pull``."""
    add_models_argument(parser, default="all that are locked")
    add_store_argument(parser)
    add_transfer_arguments(parser)
    parser.add_argument(
        "--no-image-room",
        action="store_true",
        help="leave no room for the images of the stacks that use the models: this host only stores",
    )


def run(args: argparse.Namespace, context: Context) -> Result:
    """Pull one model after the other; the first that fails ends it. Raises what ``pull_model`` raises."""
    settings = transfer_settings(args, context)
    entries = proven_entries(read_locks(context.kit_dir), args.models, context=context)
    store = store_of(args)
    missing = models_to_fetch(entries, store)
    images = () if args.no_image_room else image_needs(missing, context=context)
    check_room_for_all(entries, store, others=images)
    pulled = [(entry, pull_model(entry, store, settings=settings, say=context.say)) for entry in entries]
    data = {
        "schema": "kitctl.models-pull/1",
        "store": store,
        "models": [_row(entry, done) for entry, done in pulled],
    }
    return Result(data=data, lines=tuple(_line(entry, done) for entry, done in pulled))


def _row(entry: ModelEntry, done: Pulled) -> dict[str, object]:
    return {
        "name": entry.repo,
        "commit": entry.commit,
        "folder": str(done.place.host_dir),
        "size_bytes": entry.size_bytes,
        "fetched_bytes": done.fetched_bytes,
        "reused_bytes": done.reused_bytes,
        "kept_bytes": done.kept_bytes,
        "seconds": round(done.seconds, 3),
    }


def _line(entry: ModelEntry, done: Pulled) -> str:
    if not done.fetched_bytes and not done.reused_bytes:
        return (
            f"{entry.repo}: complete and proven, {size_text(entry.size_bytes or 0)} in {done.place.host_dir}"
        )
    parts = [f"{size_text(done.fetched_bytes)} fetched"]
    if done.reused_bytes:
        source = "from kitctl itself" if entry.state is LockState.SHIPPED else "from a cache of this machine"
        parts.append(f"{size_text(done.reused_bytes)} taken {source}")
    if done.kept_bytes:
        parts.append(f"{size_text(done.kept_bytes)} were there")
    took = duration_text(done.seconds)
    return f"{entry.repo}: {', '.join(parts)} in {took}, all proven, in {done.place.host_dir}"
