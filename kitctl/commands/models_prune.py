"""``kitctl models prune``: remove what transfers left over and what no snapshot links to."""

from __future__ import annotations

import argparse

from kitctl.commands.models_common import add_store_argument, store_of
from kitctl.edge.lock_file import read_locks
from kitctl.edge.store_scan import remove_all, scan_store
from kitctl.result import Context, Result
from kitctl.store.on_disk import plan_prune
from kitctl.store.sizes import size_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``models prune``."""
    add_store_argument(parser)
    parser.add_argument("--dry-run", action="store_true", help="list what would go, remove nothing")


def run(args: argparse.Namespace, context: Context) -> Result:
    """Leftovers of an hour and older go; what a lock names, and every snapshot, stays."""
    wanted = {file.blob_name for entry in read_locks(context.kit_dir).merged.models for file in entry.files}
    removals = plan_prune(scan_store(store_of(args)), wanted=wanted)
    if not args.dry_run:
        remove_all(removals)
    freed = sum(removal.size_bytes for removal in removals)
    data = {
        "schema": "kitctl.models-prune/1",
        "store": store_of(args),
        "dry_run": args.dry_run,
        "freed_bytes": freed,
        "removed": [{"path": str(r.path), "size_bytes": r.size_bytes, "reason": r.reason} for r in removals],
    }
    lines = [f"{size_text(r.size_bytes):>8}  {r.path} ({r.reason})" for r in removals]
    verb = "would be freed" if args.dry_run else "freed"
    return Result(data=data, lines=(*lines, f"{size_text(freed)} {verb}"))
