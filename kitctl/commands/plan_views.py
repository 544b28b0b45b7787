"""The two other ways to look at a plan: why a value is what it is, and in what it differs from another."""

from __future__ import annotations

import argparse
import copy
from typing import Any

from kitctl.commands.planning import Planned, make_plan
from kitctl.edge.runs import list_records, load_record
from kitctl.errors import Exit, KitError
from kitctl.kit.catalog import stack_names
from kitctl.kit.near import did_you_mean
from kitctl.plan.explain import explain
from kitctl.plan.plan_diff import diff_plans
from kitctl.render.compose import plan_json
from kitctl.result import Context, Result


def why(planned: Planned, field: str) -> Result:
    """One value and what decided it. Raises KitError ``unknown-field`` (exit 2)."""
    found = explain(field, planned.plan, spellings=planned.kit.spellings, overlays=planned.kit.overlays)
    data = {"schema": "kitctl.why/1", "field": found.field, "value": found.value, "reason": found.reason}
    return Result(data=data, lines=(f"{found.field} = {found.value}", f"  because: {found.reason}"))


def diff(args: argparse.Namespace, context: Context, planned: Planned, other: str) -> Result:
    """In what the plan differs from that of another stack on this host, or from a recorded run's."""
    there = _plan_of(args, context, planned, other)
    found = diff_plans(plan_json(planned.plan), there)
    rows = [{"field": one.field, "here": one.here, "there": one.there} for one in found]
    lines = [f"{one.field}: {_shown(one.here)} | {_shown(one.there)}" for one in found]
    head = f"{planned.plan.stack.name} | {other}"
    return Result(
        data={
            "schema": "kitctl.plan.diff/1",
            "here": planned.plan.stack.name,
            "there": other,
            "differences": rows,
        },
        lines=(head, *lines) if lines else (f"{head}: no difference",),
    )


def _plan_of(args: argparse.Namespace, context: Context, planned: Planned, other: str) -> dict[str, Any]:
    stacks = stack_names(planned.kit.texts)
    if other in stacks:
        asked = copy.copy(args)
        asked.stack = other
        return plan_json(make_plan(asked, context).plan)
    record = load_record(other) or next((one for one in list_records() if one.id.startswith(other)), None)
    if record is not None:
        return record.plan
    raise KitError(
        "unknown-plan",
        f"{other!r} is neither a stack nor a recorded run",
        evidence=(did_you_mean(other, (*stacks, *(one.id for one in list_records()))),),
        remedy="name one that 'kitctl stacks' or 'kitctl runs list' prints",
        exit_code=Exit.USAGE,
    )


def _shown(value: Any) -> str:
    return "not there" if value is None else "set" if value is True else str(value)
