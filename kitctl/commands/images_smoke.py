"""``kitctl images smoke``: test an image that is on this engine again, and record what was found."""

from __future__ import annotations

import argparse

import msgspec

from kitctl.commands.building import BuildWish, existing_record
from kitctl.commands.smoking import smoke_image
from kitctl.edge.kit_files import find_kit
from kitctl.errors import Exit
from kitctl.kit.image_report import record_lines
from kitctl.result import Context, Result


def run(args: argparse.Namespace, context: Context) -> Result:
    """Exit 4 when a check fails."""
    kit_dir = find_kit(context.kit_dir)
    wish = BuildWish(image=args.image, release=args.release, stage=args.stage)
    record = smoke_image(kit_dir, existing_record(kit_dir, wish), context)
    passed = record.smoke is not None and record.smoke.ok
    return Result(
        data={"schema": "kitctl.smoke/1", "record": msgspec.to_builtins(record)},
        lines=record_lines(record),
        exit=Exit.OK if passed else Exit.BUILD,
    )
