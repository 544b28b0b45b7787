"""``kitctl models verify``: prove the files of the store against models.lock."""

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
from kitctl.edge.lock_file import read_locks
from kitctl.edge.pull import PullSettings, pull_model
from kitctl.edge.verify import Verified, verify_model
from kitctl.errors import Exit
from kitctl.kit.models_lock import LockState, ModelEntry
from kitctl.result import Context, Result
from kitctl.store.verify_report import verify_json, verify_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``models verify``."""
    add_models_argument(parser, default="all that the store has")
    add_store_argument(parser)
    level = parser.add_mutually_exclusive_group()
    level.add_argument(
        "--deep", action="store_true", help="every hash, remembered until a file changes (default)"
    )
    level.add_argument("--quick", action="store_true", help="presence, sizes, headers, index: under a second")
    parser.add_argument("--fresh", action="store_true", help="read again what was proven before")
    parser.add_argument(
        "--repair", action="store_true", help="fetch what is missing or broken, then verify again"
    )
    add_transfer_arguments(parser)


def run(args: argparse.Namespace, context: Context) -> Result:
    """Exit 0 when all named models are whole, 5 when one is not. Raises KitError as ``models pull`` does."""
    settings = transfer_settings(args, context)
    entries = proven_entries(read_locks(context.kit_dir), args.models, context=context, may_be_none=True)
    checked = [_check(entry, args, settings=settings, context=context) for entry in entries]
    if not args.models:
        checked = _of_this_store(checked, context)
    level = "quick" if args.quick else "deep"
    exit_code = Exit.OK if all(one.ok for one in checked) else Exit.FETCH
    reports = [one.report for one in checked]
    data = verify_json(reports, store=store_of(args), level=level)
    lines = verify_lines(reports) if reports else ("nothing is locked, so nothing can be proven",)
    return Result(data=data, lines=lines, exit=exit_code)


def _of_this_store(checked: list[Verified], context: Context) -> list[Verified]:
    """What the store has; when it has nothing, all that a user locked, since none of it is there."""
    has_any = any(one.place.is_there for one in checked)
    kept = []
    for one in checked:
        if one.place.is_there or not (has_any or one.place.state is LockState.SHIPPED):
            kept.append(one)
        else:
            context.say(f"{one.place.repo}: not in this store, left out")
    return kept


def _check(
    entry: ModelEntry, args: argparse.Namespace, *, settings: PullSettings, context: Context
) -> Verified:
    store = store_of(args)
    first = verify_model(
        entry, store, deep=not args.quick, fresh=args.fresh, every_s=settings.every_s, say=context.say
    )
    if first.ok or not args.repair:
        return first
    pull_model(entry, store, settings=settings, say=context.say)
    return verify_model(
        entry, store, deep=not args.quick, fresh=False, every_s=settings.every_s, say=context.say
    )
