"""``kitctl verify``: image, models and kit proven against the locks."""

from __future__ import annotations

import argparse

from kitctl.commands.models_common import add_store_argument, store_of
from kitctl.commands.verifying import Depth, prove_images, prove_kit, prove_models
from kitctl.edge.kit_files import find_kit, load_kit_texts
from kitctl.errors import Exit
from kitctl.kit.catalog import resolve_stack
from kitctl.kit.stack import Stack
from kitctl.plan.proofs import Kind, Proven, proof_lines, proofs_json
from kitctl.result import Context, Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``verify``."""
    parser.add_argument(
        "stack", metavar="STACK", nargs="?", help="a stack's image and models (default: all that are here)"
    )
    parser.add_argument(
        "--only", choices=[kind.value for kind in Kind], action="append", default=[], help="repeatable"
    )
    parser.add_argument(
        "--deep", action="store_true", help="every byte of models and image layers; packages listed anew"
    )
    parser.add_argument("--fresh", action="store_true", help="with --deep: read again what was proven before")
    add_store_argument(parser)


def run(args: argparse.Namespace, context: Context) -> Result:
    """Exit 0 when all that was looked at is proven, 5 when something is not."""
    kit_dir = find_kit(context.kit_dir)
    depth = Depth(deep=args.deep, fresh=args.fresh)
    stack = resolve_stack(load_kit_texts(kit_dir), args.stack).stack if args.stack else None
    proofs = [proof for kind in Kind for proof in _prove(kind, kit_dir, stack, args, depth, context)]
    level = "deep" if args.deep else "quick"
    failed = not all(proof.ok for proof in proofs)
    return Result(
        data=proofs_json(proofs, level=level),
        lines=proof_lines(proofs),
        exit=Exit.FETCH if failed else Exit.OK,
    )


def _prove(
    kind: Kind, kit_dir: str, stack: Stack | None, args: argparse.Namespace, depth: Depth, context: Context
) -> tuple[Proven, ...]:
    if args.only and kind not in args.only:
        return ()
    match kind:
        case Kind.KIT:
            return prove_kit(kit_dir)
        case Kind.IMAGE:
            return prove_images(kit_dir, stack, depth=depth, context=context)
        case Kind.MODEL:
            return prove_models(kit_dir, stack, store=store_of(args), depth=depth, context=context)
