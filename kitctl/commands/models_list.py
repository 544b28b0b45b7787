"""``kitctl models list``: the models of the lock, what of them is there, and which stacks use them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from kitctl.commands.models_common import add_store_argument, store_of
from kitctl.edge.kit_files import find_kit, load_kit_texts
from kitctl.edge.lock_file import read_locks
from kitctl.edge.store_files import locate_model
from kitctl.kit.catalog import ResolvedStack, all_stacks
from kitctl.result import Context, Result
from kitctl.store.list_report import list_row, list_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``models list``."""
    add_store_argument(parser)


def run(args: argparse.Namespace, context: Context) -> Result:
    """All models by name. Reads no model bytes and asks no hub."""
    locks = read_locks(context.kit_dir)
    stacks, broken = all_stacks(load_kit_texts(find_kit(context.kit_dir)))
    for one in broken:
        context.say(f"stack {one.name} is broken and counts for no model ({one.error.code}): kitctl stacks")
    users = stacks_by_model(stacks)
    store = store_of(args)
    found = [(entry, locate_model(entry, store)) for entry in locks.merged.models]
    rows = [
        list_row(entry, place, stacks=users.get(entry.repo, []), is_users=locks.is_users(entry.repo))
        for entry, place in found
    ]
    data = {"schema": "kitctl.models/1", "store": store, "models": rows}
    return Result(data=data, lines=tuple(list_table(found)))


def stacks_by_model(stacks: Iterable[ResolvedStack]) -> dict[str, list[str]]:
    """Names of the stacks that use a model as target or drafter."""
    users: dict[str, list[str]] = {}
    for stack in (found.stack for found in stacks):
        for model in set(stack.models):
            users.setdefault(model, []).append(stack.name)
    return users
