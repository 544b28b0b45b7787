"""Ask the engine inside its image about the launch lines of stacks: what check, build and smoke share."""

from __future__ import annotations

from dataclasses import dataclass

from kitctl.commands.planning import Planned
from kitctl.edge.files import read_text
from kitctl.edge.inside import how_it_ended, run_inside
from kitctl.finding import Finding
from kitctl.kit.demo_model import demo_files
from kitctl.kit.models_lock import LockState
from kitctl.kit.pins import PinFile
from kitctl.plan.argument_check import (
    Answer,
    Imitated,
    answer_findings,
    argument_case,
    argument_question,
    read_answers,
)
from kitctl.plan.engine_command import engine_path
from kitctl.plan.types import GpuDriver, Plan


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The engine's answers and what they mean."""

    answers: tuple[Answer, ...]
    findings: tuple[Finding, ...]


def model_configs(planned: Planned) -> dict[str, str]:
    """Each model's folder in the container to the text of its config.json, as the lock holds it."""
    return {engine_path(model): _config(planned, model.role) for model in planned.plan.models}


def _config(planned: Planned, role: str) -> str:
    entry = planned.entries[role]
    if entry.state is LockState.GENERATED:
        return demo_files()["config.json"].decode()
    return entry.config_json or "{}"


def imitated_gpus(plan: Plan, pins: PinFile, archs: tuple[str, ...]) -> tuple[Imitated | None, ...]:
    """The GPUs to imitate for a plan: none for one without GPUs, else as many as its layout needs of each arch."""
    if plan.gpus.driver is GpuDriver.NONE and plan.image.stage == "cpu":
        return (None,)
    layout = plan.stack.parallel
    gpus = layout.tp * layout.pp * layout.dp
    return tuple(Imitated(arch=arch, gpus=gpus, memory_mib=pins.memory_mib[arch]) for arch in archs)


def judge_launch_lines(
    reference: str, kit_dir: str, planned: tuple[Planned, ...], *, pins: PinFile, archs: tuple[str, ...]
) -> Judged:
    """Put every plan's launch line to the engine in ``reference``, on each arch that it names."""
    cases = [
        argument_case(one.plan, configs=model_configs(one), imitated=imitated)
        for one in planned
        for imitated in imitated_gpus(one.plan, pins, one.plan.stack.archs or archs)
    ]
    program = read_text(f"{kit_dir}/images/{pins.image}/inside/resolve_arguments.py")
    done = run_inside(reference, program, argument_question(cases))
    answers = read_answers(done.stdout)
    return Judged(
        answers=answers, findings=answer_findings(answers, asked=len(cases), ended=how_it_ended(done))
    )
