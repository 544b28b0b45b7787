"""``kitctl check``: the exact launch line judged by the pinned engine's own parser, inside its image."""

from __future__ import annotations

import argparse
from dataclasses import replace

import msgspec

from kitctl.commands.building import load_pin_file
from kitctl.commands.judging import judge_launch_lines
from kitctl.commands.planning import add_plan_arguments, make_plan
from kitctl.edge.docker_client import require_engine
from kitctl.edge.docker_engine import image_id
from kitctl.errors import Exit, KitError
from kitctl.finding import blocking, finding_lines
from kitctl.plan.argument_check import answer_lines
from kitctl.render.compose import plan_json
from kitctl.result import Context, Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``check``: those of ``plan``, and the archs to imitate."""
    add_plan_arguments(parser)
    parser.add_argument(
        "--arch", action="append", default=[], metavar="X.Y", help="judge for this arch (default: all)"
    )


def chosen_archs(asked: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """The archs to imitate: those asked for, else all of the pin set. Raises KitError ``arch-unknown`` (exit 2)."""
    strange = [arch for arch in asked if arch not in known]
    if strange:
        raise KitError(
            "arch-unknown",
            f"--arch {strange[0]}: the image is not built for that arch",
            evidence=(f"archs of the pin set: {' '.join(known)}",),
            remedy="name one of them with --arch, or leave --arch out to judge for all",
            exit_code=Exit.USAGE,
        )
    return asked or known


def run(args: argparse.Namespace, context: Context) -> Result:
    """Exit 3 when the engine refuses the line. Nothing is started but a short-lived container."""
    require_engine()
    planned = make_plan(args, context)
    plan = planned.plan
    pins = load_pin_file(planned.kit_dir, plan.stack.image.name)
    archs = chosen_archs(tuple(args.arch), pins.pin_sets[plan.image.release or pins.default].arch)
    if image_id(plan.image.reference) is None:
        raise KitError(
            "image-missing",
            f"the image {plan.image.reference} is not on this engine",
            remedy=f"kitctl build {plan.stack.image.name} --stage {plan.image.stage}",
            exit_code=Exit.REFUSED,
        )
    context.say(f"check: asking the engine in {plan.image.reference}")
    judged = judge_launch_lines(plan.image.reference, planned.kit_dir, (planned,), pins=pins, archs=archs)
    plan = replace(plan, findings=(*plan.findings, *judged.findings))
    refused = bool(blocking(judged.findings))
    return Result(
        data={
            "schema": "kitctl.check/1",
            "accepted": not refused,
            "answers": [msgspec.to_builtins(answer) for answer in judged.answers],
            "plan": plan_json(plan),
        },
        lines=(*answer_lines(judged.answers), *finding_lines(plan.findings)),
        exit=Exit.REFUSED if refused else Exit.OK,
    )
