"""``kitctl campaign``: many stacks, unattended, to one report and a recommendation."""

from __future__ import annotations

import argparse

from kitctl.commands.campaign_adopt import add_adopt_arguments, adopt
from kitctl.commands.campaign_run import add_run_arguments, run_campaign
from kitctl.commands.campaign_status import add_status_arguments, show_status
from kitctl.result import Context, Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs of ``campaign``."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    add_run_arguments(verbs.add_parser("run", help="bring up, measure and take down stack after stack"))
    add_status_arguments(verbs.add_parser("status", help="how far it is, and what it found so far"))
    add_adopt_arguments(verbs.add_parser("adopt", help="make the winner of a band a stack of yours"))


def run(args: argparse.Namespace, context: Context) -> Result:
    """Do the verb."""
    match args.verb:
        case "run":
            return run_campaign(args, context)
        case "status":
            return show_status(args, context)
        case _:
            return adopt(args, context)
