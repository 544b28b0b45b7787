"""``kitctl models inspect``: what a model is, from its files, the lock, or the hub's small files."""

from __future__ import annotations

import argparse

from kitctl.commands.models_common import add_store_argument, store_of
from kitctl.edge.lock_file import read_locks
from kitctl.edge.model_files import (
    bytes_by_dtype_in,
    candidate_from_hub,
    is_model_folder,
    read_config,
)
from kitctl.edge.store_files import locate_model
from kitctl.kit.models_lock import ModelEntry, find_entry, require_repo_name
from kitctl.result import Context, Result
from kitctl.store.model_report import Inspected, inspect_json, inspect_lines, read_facts, stated_config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``models inspect``."""
    parser.add_argument(
        "model", metavar="MODEL", help="a model of models.lock, a folder, or REPO[@REV] of the hub with --hub"
    )
    parser.add_argument(
        "--hub", action="store_true", help="read the hub's small files, not the lock or the store"
    )
    parser.add_argument(
        "--drafter", action="store_true", help="read it as a drafter (default: by its config.json)"
    )
    add_store_argument(parser)


def run(args: argparse.Namespace, context: Context) -> Result:
    """One model's shape. Raises KitError ``model-unknown``, ``model-config`` (exit 2), ``hub-*`` (exit 5)."""
    if args.hub:
        model = _from_hub(args.model, is_drafter=args.drafter)
    elif is_model_folder(args.model):
        model = _from_folder(args.model, args.model, origin="its files", is_drafter=args.drafter)
    else:
        entry = find_entry(read_locks(context.kit_dir).merged, args.model)
        model = _from_lock(entry, store_of(args), is_drafter=args.drafter)
    return Result(data=inspect_json(model), lines=inspect_lines(model))


def _from_folder(
    name: str, folder: str, *, origin: str, is_drafter: bool, size: int | None = None
) -> Inspected:
    text = read_config(folder)
    facts = read_facts(text, source=f"{folder}/config.json", is_drafter=is_drafter)
    sums = bytes_by_dtype_in(folder)
    size_bytes = size if size is not None else sum(sums.values()) if sums else None
    return Inspected(name=name, origin=origin, facts=facts, bytes_by_dtype=sums, size_bytes=size_bytes)


def _from_lock(entry: ModelEntry, store: str, *, is_drafter: bool) -> Inspected:
    folder = str(locate_model(entry, store).host_dir)
    is_drafter = is_drafter or entry.drafter_for is not None
    if is_model_folder(folder):
        origin = f"the files in {folder}"
        return _from_folder(entry.repo, folder, origin=origin, is_drafter=is_drafter, size=entry.size_bytes)
    text, origin = stated_config(entry)
    facts = read_facts(text, source=f"models.lock: {entry.repo}: config_json", is_drafter=is_drafter)
    return Inspected(
        name=entry.repo, origin=origin, facts=facts, bytes_by_dtype=None, size_bytes=entry.size_bytes
    )


def _from_hub(word: str, *, is_drafter: bool) -> Inspected:
    repo, _, revision = word.partition("@")
    require_repo_name(repo)
    entry, text = candidate_from_hub(repo, revision or "main")
    facts = read_facts(text, source=f"{repo}: config.json", is_drafter=is_drafter)
    origin = f"the hub, commit {entry.commit}"
    return Inspected(name=repo, origin=origin, facts=facts, bytes_by_dtype=None, size_bytes=entry.size_bytes)
