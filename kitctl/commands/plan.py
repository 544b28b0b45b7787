"""``kitctl plan``: what would run and whether it can. Starts nothing, works offline."""

from __future__ import annotations

import argparse

from kitctl.commands.plan_views import diff, why
from kitctl.commands.planning import add_plan_arguments, make_plan
from kitctl.errors import Exit
from kitctl.finding import blocking, finding_lines, skipped_in_vain
from kitctl.plan.memory_report import memory_lines
from kitctl.plan.types import GpuDriver, Plan, PlannedModel
from kitctl.render.compose import base_url, fingerprint, plan_json
from kitctl.result import Context, Result
from kitctl.store.sizes import size_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``plan``."""
    add_plan_arguments(parser)
    view = parser.add_mutually_exclusive_group()
    view.add_argument(
        "--why", metavar="FIELD", help="say what set this value: parallel.ep, --tp-size, overlay ..."
    )
    view.add_argument(
        "--diff", metavar="STACK|RUN", help="say in what another stack or a recorded run differs"
    )


def run(args: argparse.Namespace, context: Context) -> Result:
    """The plan; exit 3 when a finding blocks. ``--why`` and ``--diff`` look at it and end with 0."""
    planned = make_plan(args, context)
    if args.why:
        return why(planned, args.why)
    if args.diff:
        return diff(args, context, planned, args.diff)
    plan = planned.plan
    for line in skipped_in_vain(plan.findings, args.skip):
        context.say(line)
    blocked = bool(blocking(plan.findings))
    return Result(
        data=plan_json(plan), lines=tuple(plan_lines(plan)), exit=Exit.REFUSED if blocked else Exit.OK
    )


def plan_lines(plan: Plan) -> list[str]:
    """The plan for a person: what, where, with what, and what stands against it."""
    gpus = (
        "none" if plan.gpus.driver is GpuDriver.NONE else f"{', '.join(plan.gpus.ids)} ({plan.gpus.driver})"
    )
    lines = [
        f"{plan.stack.name}: {plan.stack.summary}",
        f"  plan     {fingerprint(plan)}, project {plan.project}",
        f"  image    {plan.image.reference}",
        f"  overlay  {' + '.join(plan.overlays)}: {plan.why['overlay']}",
        f"  gpus     {gpus}",
        f"  answers  {base_url(plan)} as {plan.model_name}",
        *_load_lines(plan),
        *(_model_line(model) for model in plan.models),
        f"  argv     {' '.join(plan.argv)}",
        f"  env      {' '.join(f'{name}={value}' for name, value in sorted(plan.environment.items()))}",
        *(f"  left out {path}: {why}" for path, why in plan.left_out),
    ]
    memory = [f"  {line}" for line in memory_lines(plan.memory)] if plan.memory else []
    return lines + memory + finding_lines(plan.findings)


def _model_line(model: PlannedModel) -> str:
    missing = model.missing_bytes
    state = "complete" if missing == 0 else f"missing {size_text(missing)}" if missing else "size unknown"
    state = "comes with kitctl" if model.generated else state
    return f"  {model.role:8} {model.model}: {state} in {model.folder}"


def _load_lines(plan: Plan) -> list[str]:
    need = plan.load or {}
    if need.get("expected_s") is None:
        return []
    return [f"  start    about {need['expected_s']} s ({need['expected_source']})"]
