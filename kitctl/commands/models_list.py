"""``kitctl models list``: the models of the lock, what of them is there, and which stacks use them."""

from __future__ import annotations

import argparse

from kitctl.commands.models_common import add_store_argument, store_of
from kitctl.edge.kit_files import find_kit, load_kit_texts
from kitctl.edge.lock_file import read_locks
from kitctl.edge.store_files import locate_model
from kitctl.kit.catalog import KitTexts, resolve_stack, stack_names
from kitctl.kit.models_lock import ModelEntry
from kitctl.result import Context, Result
from kitctl.store.place import ModelPlace
from kitctl.store.sizes import size_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``models list``."""
    add_store_argument(parser)


def run(args: argparse.Namespace, context: Context) -> Result:
    """All models by name. Reads no model bytes and asks no hub."""
    locks = read_locks(context.kit_dir)
    users = stacks_by_model(load_kit_texts(find_kit(context.kit_dir)))
    store = store_of(args)
    found = [(entry, locate_model(entry, store)) for entry in locks.merged.models]
    rows = [
        _row(entry, place, stacks=users.get(entry.repo, []), is_users=locks.is_users(entry.repo))
        for entry, place in found
    ]
    data = {"schema": "kitctl.models/1", "store": store, "models": rows}
    return Result(data=data, lines=tuple(_table(found)))


def stacks_by_model(texts: KitTexts) -> dict[str, list[str]]:
    """Names of the stacks that use a model as target or drafter."""
    users: dict[str, list[str]] = {}
    for name in stack_names(texts):
        stack = resolve_stack(texts, name).stack
        for model in {stack.model, stack.drafter.model if stack.drafter else stack.model}:
            users.setdefault(model, []).append(name)
    return users


def status_of(place: ModelPlace) -> str:
    """``complete``, ``partial`` or ``absent``."""
    if place.is_complete:
        return "complete"
    has_some = any(seen.size_bytes or seen.part_bytes for seen in place.seen)
    return "partial" if has_some else "absent"


def _row(entry: ModelEntry, place: ModelPlace, *, stacks: list[str], is_users: bool) -> dict[str, object]:
    return {
        "name": entry.repo,
        "state": str(entry.state),
        "status": status_of(place),
        "commit": entry.commit,
        "revision": entry.revision,
        "licence": entry.licence,
        "gated": entry.gated,
        "drafter_for": entry.drafter_for,
        "files": len(entry.files),
        "size_bytes": entry.size_bytes,
        "missing_bytes": place.missing_bytes,
        "folder": str(place.host_dir),
        "is_users": is_users,
        "stacks": stacks,
    }


def _table(found: list[tuple[ModelEntry, ModelPlace]]) -> list[str]:
    width = max((len(entry.repo) for entry, _ in found), default=0)
    lines = []
    for entry, place in found:
        size = size_text(entry.size_bytes) if entry.size_bytes is not None else "?"
        missing = size_text(place.missing_bytes) if place.missing_bytes else "nothing"
        lines.append(
            f"{entry.repo:{width}}  {entry.state:13}  {size:>7}  {status_of(place):8}  {missing} missing"
        )
    return lines
