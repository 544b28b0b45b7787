"""From a pin set to an image on the engine, with its record: what build, up and campaigns share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kitctl.edge.base_image import ensure_base_image
from kitctl.edge.builder import run_build
from kitctl.edge.clock import monotonic_s
from kitctl.edge.docker_client import require_engine
from kitctl.edge.docker_engine import image_id, image_labels, remove_volumes
from kitctl.edge.image_store import (
    image_layers,
    load_image_record,
    recipe_texts,
    save_image_record,
    source_revision,
)
from kitctl.edge.kit_files import load_pin_texts
from kitctl.edge.machine import read_machine_config
from kitctl.edge.runs import now_utc
from kitctl.errors import Exit, KitError
from kitctl.kit.image_record import ImageRecord
from kitctl.kit.pins import PinFile, PinSet, choose_release, load_pin_set, lock_of, read_pins
from kitctl.plan.build import (
    BaseKind,
    BuildRequest,
    choose_base,
    choose_jit_archs,
    choose_platform,
    is_current,
    plan_build,
)
from kitctl.plan.build_progress import BuildEvents
from kitctl.plan.machine_config import MachineConfig, build_secrets
from kitctl.plan.planner import cache_volume_prefix
from kitctl.result import Context


@dataclass(frozen=True, kw_only=True)
class BuildWish:
    """What the user asked for."""

    image: str
    release: str | None = None
    cuda: str | None = None
    stage: str = "gpu"
    base: str | None = None
    platform: str | None = None
    jit_archs: tuple[str, ...] = ()
    use_cache: bool = True
    own_progress: bool = False


@dataclass(frozen=True, kw_only=True)
class Built:
    """An image that is on the engine. ``built`` is false when it was there already."""

    record: ImageRecord
    built: bool


def load_pin_file(kit_dir: str, image: str) -> PinFile:
    """The image's pins.toml. Raises KitError ``unknown-image`` (exit 2)."""
    texts = load_pin_texts(kit_dir, image)
    if "pins.toml" not in texts:
        raise KitError(
            "unknown-image",
            f"the kit has no image {image!r} that it can build",
            remedy="kitctl images list",
            exit_code=Exit.USAGE,
        )
    return read_pins(texts["pins.toml"], source=f"images/{image}/pins.toml")


def load_pins(kit_dir: str, image: str, *, release: str | None, cuda: str | None = None) -> PinSet:
    """The pin set asked for. Raises KitError (exit 2) for what the kit does not hold."""
    texts = load_pin_texts(kit_dir, image)
    pins = load_pin_file(kit_dir, image)
    chosen = choose_release(pins, release=release, cuda=cuda)
    return load_pin_set(pins, chosen, lock_of(texts, chosen))


def plan_request(kit_dir: str, wish: BuildWish) -> tuple[PinSet, BuildRequest]:
    """The pin set asked for and its build. Raises KitError (exit 2)."""
    pin_set = load_pins(kit_dir, wish.image, release=wish.release, cuda=wish.cuda)
    request = plan_build(
        pin_set,
        wish.stage,
        base=choose_base(pin_set, wish.base),
        platform=choose_platform(pin_set, wish.platform),
        recipe=recipe_texts(f"{kit_dir}/images/{wish.image}", release=pin_set.release),
        revision=source_revision(kit_dir),
        jit_archs=choose_jit_archs(pin_set, wish.stage, wish.jit_archs),
    )
    return pin_set, request


def existing_record(kit_dir: str, wish: BuildWish) -> ImageRecord:
    """The record of an image that must be on the engine. Raises KitError ``image-missing`` (exit 3)."""
    _, request = plan_request(kit_dir, wish)
    found = image_id(request.reference)
    if found is None:
        raise KitError(
            "image-missing",
            f"the image {request.reference} is not on this engine",
            remedy=f"kitctl build {wish.image} --release {request.release} --stage {wish.stage}",
            exit_code=Exit.REFUSED,
        )
    return _known(request, found)


def build(kit_dir: str, wish: BuildWish, context: Context) -> Built:
    """Build what is not current. Raises KitError (exit 2, 4 or 10)."""
    pin_set, request = plan_request(kit_dir, wish)
    require_engine()
    there = image_labels(request.reference)
    if wish.use_cache and there is not None and is_current(there[1], request):
        return Built(record=_known(request, there[0]), built=False)
    seconds: dict[str, float] = {}
    machine = read_machine_config()
    if request.base.kind is BaseKind.KIT:
        started = monotonic_s()
        context.say(f"base: {request.base.reference}")
        ensure_base_image(pin_set, machine, recipe_dir=f"{kit_dir}/images/base")
        seconds["base"] = monotonic_s() - started
    started = monotonic_s()
    context.say(f"build: {request.reference}")
    _run(request, pin_set, machine, kit_dir=kit_dir, wish=wish, context=context)
    seconds["build"] = monotonic_s() - started
    record = _record(request, seconds)
    save_image_record(record)
    if there is None or there[0] != record.image_id:
        # A cache volume starts as a copy of its image's; one that another image filled would hide this one's kernels.
        for volume in remove_volumes(cache_volume_prefix(request.pins_hash, request.stage)):
            context.say(f"removed: {volume}, the cache of the image that was here before")
    return Built(record=record, built=True)


def _run(
    request: BuildRequest,
    pin_set: PinSet,
    machine: MachineConfig,
    *,
    kit_dir: str,
    wish: BuildWish,
    context: Context,
) -> None:
    folder = f"{kit_dir}/images/{wish.image}"
    run_build(
        request,
        context_dir=folder,
        pins_dir=f"{folder}/{pin_set.release}",
        secrets=build_secrets(machine, suite=pin_set.base.suite),
        proxies=machine.proxies,
        use_cache=wish.use_cache,
        on_line=None if wish.own_progress else _event_sayer(context),
    )


def _event_sayer(context: Context) -> Callable[[str], None]:
    events = BuildEvents()

    def say(line: str) -> None:
        event = events.event_of(line)
        if event is not None:
            context.say(event)

    return say


def _known(request: BuildRequest, found_id: str) -> ImageRecord:
    """The record of an image that is there; made anew when it was built elsewhere."""
    kept = load_image_record(request.reference)
    if kept is not None and kept.image_id == found_id:
        return kept
    return _record(request, {})


def _record(request: BuildRequest, seconds: dict[str, float]) -> ImageRecord:
    layers = image_layers(request.reference)
    built = image_id(request.reference)
    if built is None:
        raise KitError(
            "build-failed",
            f"the builder ended well, but {request.reference} is not on the engine",
            remedy="docker buildx use default: another builder keeps its images to itself",
            exit_code=Exit.BUILD,
        )
    return ImageRecord(
        image=request.image,
        release=request.release,
        stage=request.stage,
        reference=request.reference,
        image_id=built,
        pins_hash=request.pins_hash,
        inputs_hash=request.inputs_hash,
        base=request.base.reference,
        base_kind=request.base.kind.value,
        base_id=image_id(request.base.reference),
        built_at=now_utc(),
        seconds={phase: round(value, 1) for phase, value in seconds.items()},
        size_bytes=sum(layer.size_bytes for layer in layers),
        layers=layers,
    )
