"""``kitctl images``: what the kit can build, its locks, its proofs, and what two images differ in."""

from __future__ import annotations

import argparse
import importlib

from kitctl.kit.pins import Stage
from kitctl.result import Context, Result

_VERBS = ("list", "lock", "smoke", "diff")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Sub-commands of ``images``; without one, ``list``."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    verbs.add_parser("list", help="pin sets, their images, and which are on this engine", allow_abbrev=False)
    lock = verbs.add_parser(
        "lock",
        help="resolve the pin sets anew: constraints with hashes, layers, flag tables",
        allow_abbrev=False,
    )
    lock.add_argument("image", nargs="?", default="sglang", help="the image (default: sglang)")
    lock.add_argument("--release", metavar="R", help="only this pin set (default: all)")
    lock.add_argument("--check", action="store_true", help="change nothing; exit 9 when a lock would change")
    smoke = verbs.add_parser("smoke", help="test an image from inside, without a GPU", allow_abbrev=False)
    smoke.add_argument("image", nargs="?", default="sglang", help="the image (default: sglang)")
    smoke.add_argument("--release", metavar="R", help="the pin set (default: the kit's default)")
    smoke.add_argument(
        "--stage", choices=[stage.value for stage in Stage], default=Stage.GPU.value, help="default: gpu"
    )
    diff = verbs.add_parser("diff", help="packages, files and sizes that differ", allow_abbrev=False)
    diff.add_argument("before", metavar="A", help="an image on this engine")
    diff.add_argument("after", metavar="B", help="another")
    diff.add_argument("--content", action="store_true", help="compare the bytes of every file too")
    for verb in verbs.choices.values():
        verb.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def run(args: argparse.Namespace, context: Context) -> Result:
    """Do the sub-command."""
    verb = args.verb or _VERBS[0]
    result: Result = importlib.import_module(f"kitctl.commands.images_{verb}").run(args, context)
    return result
