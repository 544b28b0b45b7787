"""How does ``kitctl setup`` say what it will do and did? Plan and outcomes in, lines and JSON out."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any, assert_never

import msgspec

from kitctl.finding import finding_lines
from kitctl.host.setup_apt import download_argv
from kitctl.host.setup_facts import SetupFacts
from kitctl.host.setup_recipe import Recipe
from kitctl.host.setup_refusals import is_hopeless
from kitctl.host.setup_sources import plugin_version
from kitctl.host.setup_steps import (
    Action,
    AwaitEngine,
    Link,
    Run,
    SetupPlan,
    StartDaemon,
    Step,
    UnpackDeb,
    UnpackWheel,
    WriteText,
)

SCHEMA = "kitctl.setup/1"
STOP_SCHEMA = "kitctl.setup-stop/1"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A step that was carried out, and how long it took."""

    name: str
    seconds: float


def action_lines(action: Action) -> tuple[str, ...]:
    """An action as commands that a person could type, or as words where there is no such command."""
    match action:
        case Run():
            return (shlex.join(action.argv),)
        case UnpackDeb():
            fetch = download_argv(action.folder, action.package, action.version)
            return (shlex.join(fetch), f"dpkg-deb -x {action.package}_*.deb {shlex.quote(action.target)}")
        case UnpackWheel():
            return (f"{shlex.join(wheel_argv(action, 'REQUIREMENTS', action.target))}",)
        case WriteText():
            return (f"write {action.path}",)
        case Link():
            return (shlex.join(("ln", "-sfn", action.target, action.path)),)
        case StartDaemon():
            return (f"PATH={action.path} {shlex.join(action.argv)} >>{action.log} 2>&1 &",)
        case AwaitEngine():
            return (f"wait at most {action.timeout_s:g} s for: docker version",)
        case _:
            assert_never(action)


def wheel_argv(action: UnpackWheel, requirements: str, target: str) -> tuple[str, ...]:
    """pip's argv for a wheel whose hash stands in the file ``requirements``."""
    flags = ("--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:")
    return (*action.pip, "install", *flags, "--target", target, "--requirement", requirements)


def requirements_text(action: UnpackWheel) -> str:
    """The requirement with the only hash that pip may accept."""
    return f"{action.requirement} --hash=sha256:{action.sha256}\n"


def plan_lines(facts: SetupFacts, plan: SetupPlan) -> tuple[str, ...]:
    """What setup will do, for a person: each step with its reason, source and commands.

    Where a finding other than ``setup-not-root`` forbids it, the findings alone: the steps would not be these.
    """
    notes = tuple(f"note: {note}" for note in plan.notes)
    steps = () if is_hopeless(plan.findings) or not plan.steps else step_lines(facts, plan.steps)
    return (*steps, *notes, *finding_lines(plan.findings))


def step_lines(facts: SetupFacts, steps: tuple[Step, ...]) -> tuple[str, ...]:
    """The steps with reason, source and commands."""
    lines = [f"kitctl setup on {facts.os.name or 'this system'} will:"]
    for number, step in enumerate(steps, start=1):
        lines.append(f"  {number}. {step.name}  [{step.source}]")
        lines.append(f"     why: {step.reason}")
        lines += [f"     $ {line}" for action in step.actions for line in action_lines(action)]
    return tuple(lines)


def state_line(facts: SetupFacts) -> str:
    """What is there, in one line."""
    buildx, compose = plugin_version(facts, "buildx"), plugin_version(facts, "compose")
    return f"Docker Engine {facts.engine.server}, buildx {buildx}, compose {compose}"


def setup_data(
    facts: SetupFacts, recipe: Recipe, plan: SetupPlan, outcomes: tuple[Outcome, ...] = ()
) -> dict[str, Any]:
    """The ``kitctl.setup/1`` object."""
    distribution = recipe.distribution_of(facts.os.id, facts.os.version)
    seconds = {outcome.name: round(outcome.seconds, 2) for outcome in outcomes}
    return {
        "schema": SCHEMA,
        "distribution": {"name": facts.os.name, "tried": distribution.tried if distribution else None},
        "engine": facts.engine.server,
        "buildx": plugin_version(facts, "buildx"),
        "compose": plugin_version(facts, "compose"),
        "nothing_to_do": not plan.steps and not plan.findings,
        "steps": [_step_data(step, seconds) for step in plan.steps],
        "findings": [msgspec.to_builtins(found) for found in plan.findings],
        "notes": list(plan.notes),
    }


def _step_data(step: Step, seconds: dict[str, float]) -> dict[str, Any]:
    return {
        "name": step.name,
        "reason": step.reason,
        "source": step.source,
        "commands": [line for action in step.actions for line in action_lines(action)],
        "seconds": seconds.get(step.name),
    }
