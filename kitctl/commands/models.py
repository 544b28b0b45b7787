"""``kitctl models``: the model store. Each sub-command is a module of its own."""

from __future__ import annotations

import argparse
import importlib

from kitctl.result import Context, Result

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "list": ("kitctl.commands.models_list", "the models of the lock, and what of them is there"),
    "lock": ("kitctl.commands.models_lock", "read a model's files and hashes from the hub into models.lock"),
    "add": (
        "kitctl.commands.models_add",
        "take in a model that lies in a folder of yours; nothing is copied",
    ),
    "pull": (
        "kitctl.commands.models_pull",
        "fetch what is missing, proven by hash, and go on after any break",
    ),
    "verify": ("kitctl.commands.models_verify", "prove the files by hash; --repair fetches what is broken"),
    "inspect": ("kitctl.commands.models_inspect", "what a model is: layers, experts, attention, KV bytes"),
    "du": ("kitctl.commands.models_du", "what the store holds, in bytes"),
    "prune": ("kitctl.commands.models_prune", "remove leftovers and what nothing refers to"),
    "rm": ("kitctl.commands.models_rm", "remove a model's files from the store"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The sub-commands and their options."""
    subs = parser.add_subparsers(dest="models_command", metavar="SUBCOMMAND", required=True)
    for name, (module, summary) in SUBCOMMANDS.items():
        sub = subs.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        importlib.import_module(module).add_arguments(sub)


def run(args: argparse.Namespace, context: Context) -> Result:
    """Run the chosen sub-command."""
    module = importlib.import_module(SUBCOMMANDS[args.models_command][0])
    result: Result = module.run(args, context)
    return result
