"""The smoke test of an image and its place in the image's record."""

from __future__ import annotations

from msgspec.structs import replace

from kitctl.commands.building import load_pin_file, load_pins
from kitctl.commands.judging import judge_launch_lines, plans_of_image
from kitctl.edge.clock import monotonic_s
from kitctl.edge.docker_engine import image_labels
from kitctl.edge.files import read_text
from kitctl.edge.image_store import save_bill, save_image_record
from kitctl.edge.inside import how_it_ended, run_inside
from kitctl.edge.kit_files import load_pin_texts
from kitctl.edge.runs import now_utc
from kitctl.kit.image_record import ImageRecord, SmokeCheck
from kitctl.kit.pins import KERNEL_LIST, lock_of
from kitctl.plan.argument_check import launch_line_checks
from kitctl.plan.build import LABEL_KERNELS
from kitctl.plan.image_diff import read_contents
from kitctl.plan.sbom import sbom_text
from kitctl.plan.smoke import kernel_checks, read_smoke, smoke_question
from kitctl.result import Context


def smoke_image(kit_dir: str, record: ImageRecord, context: Context) -> ImageRecord:
    """Test the image from inside; the record with what was found is saved and returned."""
    context.say(f"smoke: {record.reference}")
    folder = f"{kit_dir}/images/{record.image}"
    question = smoke_question(
        load_pins(kit_dir, record.image, release=record.release),
        record.stage,
        lock=lock_of(load_pin_texts(kit_dir, record.image), record.release),
    )
    done = run_inside(record.image_id, read_text(f"{folder}/inside/smoke.py"), question)
    smoke = read_smoke(done.stdout, image_id=record.image_id, at=now_utc(), ended=how_it_ended(done))
    more = (*_kernel_checks(kit_dir, record), *_stack_checks(kit_dir, record))
    smoke = replace(smoke, checks=(*smoke.checks, *more))
    checked = replace(record, smoke=smoke)
    save_image_record(checked)
    save_bill(checked, bill_of_materials(kit_dir, checked))
    for check in smoke.checks:
        context.say(f"  {'ok  ' if check.ok else 'FAIL'} {check.name}: {check.detail}")
    return checked


def _kernel_checks(kit_dir: str, record: ImageRecord) -> tuple[SmokeCheck, ...]:
    """Whether a start would find the run-time kernels that the image's label names."""
    found = image_labels(record.reference)
    archs = found[1].get(LABEL_KERNELS, "").split() if found is not None else []
    if not archs:
        return ()
    folder = f"{kit_dir}/images/{record.image}"
    kernels = read_text(f"{folder}/{record.release}/{KERNEL_LIST}")
    done = run_inside(record.image_id, read_text(f"{folder}/precompile.py"), "--check", kernels, *archs)
    return kernel_checks(done.stdout, archs=archs, ended=how_it_ended(done))


def _stack_checks(kit_dir: str, record: ImageRecord) -> tuple[SmokeCheck, ...]:
    """The launch line of every stack that the image serves, put to its own argument resolution."""
    pins = load_pin_file(kit_dir, record.image)
    started = monotonic_s()
    planned = plans_of_image(kit_dir, record.image, release=record.release, stage=record.stage)
    archs = pins.pin_sets[record.release].arch
    judged = judge_launch_lines(record.image_id, kit_dir, planned, pins=pins, archs=archs)
    return launch_line_checks(judged.answers, judged.findings, seconds=monotonic_s() - started)


def bill_of_materials(kit_dir: str, record: ImageRecord) -> str:
    """The packages in the image, listed inside it now. Raises KitError ``image-unreadable`` (exit 4)."""
    program = read_text(f"{kit_dir}/images/{record.image}/inside/list_contents.py")
    done = run_inside(record.image_id, program, "packages")
    return sbom_text(read_contents(done.stdout or done.stderr, reference=record.reference), record)
