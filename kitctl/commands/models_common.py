"""What the ``models`` sub-commands share: options, and which entries the user means."""

from __future__ import annotations

import argparse

from kitctl.commands.argument_types import positive, seconds, some_seconds
from kitctl.edge.lock_file import Locks
from kitctl.edge.pull import PullSettings
from kitctl.edge.store_files import store_at
from kitctl.edge.transfer import Patience
from kitctl.kit.models_lock import ModelEntry, choose_entries
from kitctl.result import Context


def add_store_argument(parser: argparse.ArgumentParser) -> None:
    """Where the store is."""
    parser.add_argument("--store", metavar="DIR", help="the model store (default: the Hugging Face cache)")


def add_models_argument(parser: argparse.ArgumentParser, *, default: str) -> None:
    """Which models; ``default`` says what none means."""
    parser.add_argument(
        "models", nargs="*", metavar="MODEL", help=f"a model of models.lock (default: {default})"
    )


def add_transfer_arguments(parser: argparse.ArgumentParser) -> None:
    """How patient a transfer is and how many files come at once."""
    parser.add_argument("--jobs", type=positive, default=8, metavar="N", help="files at once (default: 8)")
    parser.add_argument(
        "--tries", type=positive, default=6, metavar="N", help="tries in a row without a byte (default: 6)"
    )
    parser.add_argument(
        "--stall",
        type=some_seconds,
        default=120.0,
        metavar="S",
        help="seconds without a byte end a try (default: 120)",
    )
    parser.add_argument(
        "--wait-lock", type=seconds, default=0.0, metavar="S", help="wait for another pull of the same model"
    )


def transfer_settings(args: argparse.Namespace, context: Context) -> PullSettings:
    """The options as settings."""
    return PullSettings(
        jobs=args.jobs,
        patience=Patience(tries=args.tries, stall_s=args.stall),
        wait_lock_s=args.wait_lock,
        every_s=context.tell_every_s,
    )


def store_of(args: argparse.Namespace) -> str:
    """The store that the words or the environment name. Raises KitError ``no-store`` (exit 2)."""
    return store_at(args.store)


def proven_entries(
    locks: Locks, names: list[str], *, context: Context, may_be_none: bool = False
) -> tuple[ModelEntry, ...]:
    """The named entries, without names all; says which have no files to prove.

    Raises KitError ``model-unknown`` (exit 2), ``model-unlocked`` (exit 5).
    """
    proven, others = choose_entries(locks.merged, names, may_be_none=may_be_none)
    for entry in others:
        context.say(f"{entry.repo}: {entry.state}, left out")
    return proven
