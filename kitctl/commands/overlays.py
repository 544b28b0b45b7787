"""``kitctl overlays``: the kinds of host and the add-ons that the kit and the user know; ``lock`` pins their images."""

from __future__ import annotations

import argparse

from kitctl.edge.kit_files import find_kit, load_kit_texts
from kitctl.kit.catalog import load_overlays
from kitctl.result import Context, Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Sub-commands of ``overlays``; without one they are listed."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    lock = verbs.add_parser(
        "lock", help="ask the registries for the digests of the add-ons' images", allow_abbrev=False
    )
    lock.add_argument("images", nargs="*", metavar="IMAGE", help="a name in addon-images.yaml (default: all)")
    lock.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def run(args: argparse.Namespace, context: Context) -> Result:
    """All overlays: links that they serve, ports that they bring. Raises KitError (exit 2) for a broken file."""
    if args.verb == "lock":
        from kitctl.commands.overlays_lock import run as lock

        return lock(args, context)
    found = load_overlays(load_kit_texts(find_kit(context.kit_dir)))
    rows = [
        {
            "name": name,
            "summary": overlay.block.summary,
            "links": list(overlay.block.links),
            "environment": dict(overlay.environment),
            "flags": {**overlay.block.flags, **overlay.block.flags_above_tp2},
            "images": dict(overlay.block.images),
            "ports": {port: block.port for port, block in overlay.block.publish.items()},
            "source": overlay.source,
        }
        for name, overlay in sorted(found.items())
    ]
    lines = tuple(f"{row['name']:12}  {row['summary']}" for row in rows)
    return Result(data={"schema": "kitctl.overlays/1", "overlays": rows}, lines=lines)
