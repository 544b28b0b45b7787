"""``kitctl build``: an engine image from its pin set, smoke-tested and recorded."""

from __future__ import annotations

import argparse

from kitctl.commands.building import BuildWish, Built, build
from kitctl.edge.kit_files import find_kit
from kitctl.errors import Exit
from kitctl.kit.image_record import ImageRecord
from kitctl.kit.pins import Stage
from kitctl.result import Context, Result

SCHEMA = "kitctl.build/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``build``."""
    parser.add_argument("image", nargs="?", default="sglang", help="the image (default: sglang)")
    parser.add_argument("--cuda", metavar="X.Y", help="the CUDA release, as 13.0")
    parser.add_argument("--release", metavar="R", help="the pin set (default: the kit's default)")
    parser.add_argument(
        "--stage", choices=[stage.value for stage in Stage], default=Stage.GPU.value, help="default: gpu"
    )
    parser.add_argument("--base", metavar="REF", help="start from this image; without @sha256 it is unlocked")
    parser.add_argument("--platform", metavar="OS/ARCH", help="default: the pin set's first")
    parser.add_argument(
        "--jit-arch",
        action="append",
        default=[],
        metavar="X.Y",
        help="compile the common run-time kernels for this arch into the image; repeatable, minutes each; none: for no "
        "arch (default: the pin set's, 12.0)",
    )
    parser.add_argument("--push", metavar="REF", help="then push it under this name, if its test passed")
    parser.add_argument("--no-cache", action="store_true", help="run every step again")
    parser.add_argument("--no-smoke", action="store_true", help="do not test the image afterwards")
    parser.add_argument(
        "--progress", choices=["auto", "plain"], default="auto", help="plain: one line per event"
    )


def run(args: argparse.Namespace, context: Context) -> Result:
    """Build, smoke-test, push. Nothing happens for an image that is current and passed its test."""
    kit_dir = find_kit(context.kit_dir)
    wish = BuildWish(
        image=args.image,
        release=args.release,
        cuda=args.cuda,
        stage=args.stage,
        base=args.base,
        platform=args.platform,
        jit_archs=tuple(args.jit_arch),
        use_cache=not args.no_cache,
        own_progress=context.is_terminal and args.progress == "auto" and not context.as_json,
    )
    built = build(kit_dir, wish, context)
    record = built.record
    if not args.no_smoke and (record.smoke is None or record.smoke.image_id != record.image_id):
        from kitctl.commands.smoking import smoke_image

        record = smoke_image(kit_dir, record, context)
    push = args.push is not None and (args.no_smoke or (record.smoke is not None and record.smoke.ok))
    if push:
        record = _push(record, args.push, context)
    return _result(Built(record=record, built=built.built), pushed=args.push if push else None)


def _push(record: ImageRecord, target: str, context: Context) -> ImageRecord:
    """Push it and keep the digest under which the registry holds it. Raises KitError ``push-failed`` (exit 4)."""
    from msgspec.structs import replace

    from kitctl.edge.builder import push_image
    from kitctl.edge.image_store import save_image_record

    context.say(f"push: {target}")
    pushed = replace(record, pushed={**record.pushed, target: push_image(record.reference, target)})
    save_image_record(pushed)
    return pushed


def build_image(kit_dir: str, name: str, *, release: str | None, stage: str, context: Context) -> ImageRecord:
    """The image of a pin set, built when it is not current; without a smoke test. Raises KitError (exit 4)."""
    own = context.is_terminal and not context.as_json
    wish = BuildWish(image=name, release=release, stage=stage, own_progress=own)
    return build(kit_dir, wish, context).record


def _result(built: Built, *, pushed: str | None) -> Result:
    import msgspec

    from kitctl.kit.image_report import record_lines

    record = built.record
    passed = record.smoke is None or record.smoke.ok
    data = {"schema": SCHEMA, "built": built.built, "pushed": pushed, "record": msgspec.to_builtins(record)}
    lines = (("built" if built.built else "up to date: nothing to do"), *record_lines(record))
    return Result(data=data, lines=lines, exit=Exit.OK if passed else Exit.BUILD)
