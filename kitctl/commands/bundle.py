"""``kitctl bundle``: images, models, caches and kitctl itself in a folder, for hosts without network."""

from __future__ import annotations

import argparse
import importlib

from kitctl.commands.argument_types import size
from kitctl.commands.models_common import add_store_argument
from kitctl.result import Context, Result

_MIN_PART_BYTES = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Sub-commands of ``bundle``."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    export = verbs.add_parser(
        "export", help="write a bundle; goes on where it was cut off", allow_abbrev=False
    )
    export.add_argument("stacks", nargs="+", metavar="STACK", help="the stacks that the bundle serves")
    export.add_argument("-o", "--output", required=True, metavar="DIR", help="the folder to write into")
    export.add_argument("--image", metavar="REF", help="carry this image instead of the stacks' own")
    export.add_argument(
        "--add", action="append", default=[], metavar="NAME", help="an add-on's images too; repeatable"
    )
    export.add_argument(
        "--since", metavar="DIR", help="leave out what this older bundle holds; import then needs both"
    )
    export.add_argument(
        "--part-size", type=size, metavar="SIZE", help="largest file, as 4G or 700M (default: 4G, fits FAT)"
    )
    export.add_argument(
        "--python", action="append", default=[], metavar="X.Y", help="wheels for this Python too; repeatable"
    )
    export.add_argument("--no-kit", action="store_true", help="leave kitctl itself out")
    export.add_argument("--no-caches", action="store_true", help="leave the caches of compiled kernels out")
    add_store_argument(export)
    verify = verbs.add_parser("verify", help="prove every byte of a bundle", allow_abbrev=False)
    take_in = verbs.add_parser("import", help="prove a bundle, then take it in", allow_abbrev=False)
    for verb in (verify, take_in):
        verb.add_argument("bundle", metavar="DIR", help="the bundle's folder")
        verb.add_argument("--digest", metavar="SHA256", help="the digest that the export printed")
        verb.add_argument(
            "--base",
            action="append",
            default=[],
            metavar="DIR",
            help="an older bundle it rests on; repeatable",
        )
    take_in.add_argument(
        "--replace-config", action="store_true", help="replace stacks, overlays and lock entries of yours"
    )
    add_store_argument(take_in)


def run(args: argparse.Namespace, context: Context) -> Result:
    """Do the sub-command."""
    result: Result = importlib.import_module(f"kitctl.commands.bundle_{args.verb}").run(args, context)
    return result
