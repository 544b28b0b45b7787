"""Ask the engine inside its image about the launch lines of stacks: what check, build and smoke share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kitctl.commands.plan_checks import config_text
from kitctl.commands.planning import Planned, load_kit, model_entries, place_model
from kitctl.edge.files import read_text
from kitctl.edge.inside import how_it_ended, run_inside
from kitctl.edge.kit_files import load_kit_texts, load_pin_texts
from kitctl.edge.store_files import default_store
from kitctl.finding import Finding
from kitctl.host.facts import HostFacts
from kitctl.kit.catalog import all_stacks
from kitctl.kit.pins import PinFile, Stage
from kitctl.plan.argument_check import (
    Answer,
    Imitated,
    answer_findings,
    argument_case,
    argument_question,
    read_answers,
)
from kitctl.plan.engine_command import engine_path
from kitctl.plan.image_choice import choose_image
from kitctl.plan.placement import place_stack
from kitctl.plan.planner import compose_plan
from kitctl.plan.rehearsal import resolve_for_host
from kitctl.plan.types import Plan, Request


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The engine's answers and what they mean."""

    answers: tuple[Answer, ...]
    findings: tuple[Finding, ...]


def plan_without_host(
    kit_dir: str, stack: str, *, settings: tuple[tuple[str, Any], ...], rehearse: bool
) -> Planned:
    """The plan of a stack for no host in particular: what its launch line is anywhere."""
    request = Request(stack=stack, settings=settings, rehearse=rehearse)
    kit = load_kit(kit_dir)
    hosted = resolve_for_host(kit.texts, request, kit.overlays)
    store = default_store()
    entries = model_entries(kit_dir, hosted.resolved.stack)
    facts = HostFacts()
    own = hosted.resolved.stack
    plan = compose_plan(
        request,
        kit=kit,
        hosted=hosted,
        placement=place_stack(own, request, overlays=kit.overlays, facts=facts),
        image=choose_image(own, request, pin_texts=load_pin_texts(kit_dir, own.image.name)),
        models=tuple(place_model(entry, role, store) for role, entry in entries.items()),
        facts=facts,
    )
    return Planned(plan=plan, kit_dir=kit_dir, kit=kit, facts=facts, entries=entries, store_dir=store)


def plans_of_image(kit_dir: str, image: str, *, release: str, stage: str) -> tuple[Planned, ...]:
    """Every stack that this image serves: on GPUs, or on the processor as itself or as a rehearsal.

    A broken stack of the user's is no matter of the image; one of the kit's raises its error (exit 2).
    """
    stacks, broken = all_stacks(load_kit_texts(kit_dir))
    for one in broken:
        if not one.is_users:
            raise one.error
    found = []
    for stack in (one.stack for one in stacks):
        if stack.image.name != image or stack.image.reference:
            continue
        settings = (("image.release", release),)
        if stack.image.stage == stage:
            found.append(plan_without_host(kit_dir, stack.name, settings=settings, rehearse=False))
        elif stage == Stage.CPU:
            found.append(plan_without_host(kit_dir, stack.name, settings=settings, rehearse=True))
    return tuple(found)


def model_configs(planned: Planned) -> dict[str, str]:
    """Each model's folder in the container to the text of its config.json, as the lock holds it."""
    return {engine_path(model): config_text(planned.entries[model.role]) for model in planned.plan.models}


def imitated_gpus(plan: Plan, pins: PinFile, archs: tuple[str, ...]) -> tuple[Imitated | None, ...]:
    """The GPUs to imitate for a plan: none for one without GPUs, else as many as its layout needs of each arch."""
    if plan.image.stage == Stage.CPU:
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
