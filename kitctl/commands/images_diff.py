"""``kitctl images diff``: what two images on this engine differ in."""

from __future__ import annotations

import argparse

from kitctl.edge.docker_engine import image_id
from kitctl.edge.files import read_text
from kitctl.edge.inside import run_inside
from kitctl.edge.kit_files import find_kit
from kitctl.errors import Exit, KitError
from kitctl.plan.image_diff import Contents, diff_contents, diff_json, diff_lines, read_contents
from kitctl.result import Context, Result


def run(args: argparse.Namespace, context: Context) -> Result:
    """Exit 0 whether or not they differ; the data says ``same``."""
    program = read_text(f"{find_kit(context.kit_dir)}/images/sglang/inside/list_contents.py")
    before, after = (_contents(name, program, content=args.content) for name in (args.before, args.after))
    diff = diff_contents(before, after)
    return Result(data=diff_json(diff, args.before, args.after), lines=diff_lines(diff))


def _contents(reference: str, program: str, *, content: bool) -> Contents:
    if image_id(reference) is None:
        raise KitError(
            "image-missing",
            f"the image {reference} is not on this engine",
            remedy="kitctl images list shows those of the kit; docker image ls shows all",
            exit_code=Exit.USAGE,
        )
    done = run_inside(reference, program, *(("content",) if content else ()), as_root=True)
    return read_contents(done.stdout or done.stderr, reference=reference)
