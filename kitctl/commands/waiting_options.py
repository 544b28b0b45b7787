"""How long to wait for a load: options that up, wait and restart share."""

from __future__ import annotations

import argparse

from kitctl.commands.argument_types import seconds
from kitctl.watch.progress import STALLED_S


def add_waiting_arguments(parser: argparse.ArgumentParser) -> None:
    """How long to wait, and how long a load may stand still."""
    parser.add_argument(
        "--timeout", type=seconds, default=1800.0, metavar="S", help="seconds to wait (default 1800)"
    )
    add_stall_argument(parser)


def add_stall_argument(parser: argparse.ArgumentParser) -> None:
    """``--stall-after``, for whoever waits for a load."""
    parser.add_argument(
        "--stall-after",
        type=seconds,
        default=STALLED_S,
        metavar="S",
        help=f"give a load up in which nothing moves for S seconds (default {STALLED_S:g})",
    )
