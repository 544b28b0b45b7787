"""``kitctl overlays``: the kinds of host that the kit and the user know."""

from __future__ import annotations

import argparse

from kitctl.edge.kit_files import find_kit, load_kit_texts
from kitctl.kit.catalog import load_overlays
from kitctl.result import Context, Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``overlays``."""
    del parser


def run(args: argparse.Namespace, context: Context) -> Result:
    """All overlays and the links that they serve. Raises KitError (exit 2) for a broken file."""
    del args
    found = load_overlays(load_kit_texts(find_kit(context.kit_dir)))
    rows = [
        {
            "name": name,
            "summary": overlay.block.summary,
            "links": list(overlay.block.links),
            "environment": dict(overlay.environment),
            "flags": {**overlay.block.flags, **overlay.block.flags_above_tp2},
            "source": overlay.source,
        }
        for name, overlay in sorted(found.items())
    ]
    lines = tuple(f"{row['name']:12}  {row['summary']}" for row in rows)
    return Result(data={"schema": "kitctl.overlays/1", "overlays": rows}, lines=lines)
