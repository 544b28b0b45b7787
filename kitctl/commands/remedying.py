"""After a failed start: say what to try next, or try it, one change at a time and never silently."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from typing import Any

import msgspec

from kitctl.commands.bring_up import bring_up
from kitctl.commands.own_command import own_command
from kitctl.commands.planning import Planned, make_plan
from kitctl.commands.preparing import refused_result
from kitctl.commands.tidying import tidy_runs
from kitctl.edge.clock import monotonic_s
from kitctl.edge.environment import config_dir
from kitctl.edge.files import write_atomic
from kitctl.edge.runs import load_record, run_folder, save_record
from kitctl.errors import Exit
from kitctl.finding import blocking
from kitctl.kit.catalog import named_texts
from kitctl.kit.yaml_reader import read_yaml
from kitctl.result import Context, Result
from kitctl.watch.diagnose import Diagnosis
from kitctl.watch.remedy import Step, next_step, override_text


def bring_up_remedied(planned: Planned, args: argparse.Namespace, context: Context) -> Result:
    """Start; while that fails with a failure that has a ladder, climb it, at most ``--auto-remedy`` times."""
    steps: list[Step] = []
    tries: list[dict[str, Any]] = []
    while True:
        begun_s = monotonic_s()
        result = bring_up(planned, args, context)
        tidy_runs(planned.plan.project)
        if tries:
            seconds = round(monotonic_s() - begun_s, 1)
            tries[-1] |= {"outcome": result.data["outcome"], "seconds": seconds}
            context.say(f"remedy {len(tries)}: {result.data['outcome']} after {seconds} s")
        step = _next(result, planned, steps)
        if step is None or len(steps) >= args.auto_remedy:
            return _told(result, planned, args, steps=steps, tries=tries, untried=step)
        steps.append(step)
        tries.append({"code": step.code, "settings": list(step.words), "why": step.why})
        context.say(f"remedy {len(steps)} of {args.auto_remedy}: {' '.join(step.words)} ({step.why})")
        args.set = [*args.set, *step.words]
        planned = make_plan(args, context)
        if blocking(planned.plan.findings):
            return refused_result(planned.plan)


def _next(result: Result, planned: Planned, tried: list[Step]) -> Step | None:
    if result.exit not in (Exit.CRASHED, Exit.NOT_READY):
        return None
    found = [msgspec.convert(one, Diagnosis) for one in result.data.get("diagnoses", ())]
    return next_step(found, msgspec.to_builtins(planned.plan.stack), tried=tried)


def _told(
    result: Result,
    planned: Planned,
    args: argparse.Namespace,
    *,
    steps: list[Step],
    tries: list[dict[str, Any]],
    untried: Step | None,
) -> Result:
    lines = list(result.lines)
    if steps and result.exit in (Exit.OK, Exit.GATE):
        lines += _keep(str(result.data["run"]), planned, steps, tries)
    if untried is not None:
        sets = [word for step in (*steps, untried) for word in _sets(step.words)]
        lines.append(f"next:  {own_command(args, *sets)}")
        if not args.auto_remedy:
            lines.append("       or let kitctl try: add --auto-remedy")
    return replace(result, lines=tuple(lines), data={**result.data, "remedies": tries})


def _keep(run_id: str, planned: Planned, steps: list[Step], tries: list[dict[str, Any]]) -> list[str]:
    """Write the winner as a stack file and into the record; the words that tell of it."""
    name = planned.plan.stack.name
    own = named_texts(planned.kit.texts, "stacks")[name]
    path = f"{run_folder(run_id)}/{name}.yaml"
    tree = read_yaml(own.text, source=own.source)
    write_atomic(path, override_text(tree, steps, name=name, run_id=run_id))
    record = load_record(run_id)
    if record is not None:
        save_record(msgspec.structs.replace(record, remedies=tuple(tries)))
    changed = ", ".join(word for step in steps for word in step.words)
    return [
        f"it came up with changes that the stack does not have: {changed}",
        f"  keep them:  install -D {shlex.quote(path)} {shlex.quote(f'{config_dir()}/stacks/{name}.yaml')}",
    ]


def _sets(words: list[str] | tuple[str, ...]) -> list[str]:
    return [word for text in words for word in ("--set", text)]
