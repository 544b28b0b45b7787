"""What room the images will take that serve the models: a pull that leaves none would end in a refused ``up``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kitctl.edge.docker_client import engine_address
from kitctl.edge.docker_engine import engine_info, image_id
from kitctl.edge.kit_files import find_kit, load_kit_texts, load_pin_texts
from kitctl.edge.package_data import package_text
from kitctl.edge.room import has_nvidia_driver, need_of
from kitctl.errors import KitError
from kitctl.host.read_docker import cdi_devices
from kitctl.kit.catalog import KitTexts, all_stacks
from kitctl.kit.pins import Stage
from kitctl.kit.stack import Stack
from kitctl.plan.image_choice import choose_image, read_image_sizes
from kitctl.plan.types import ImageChoice, Request
from kitctl.result import Context
from kitctl.store.space import SpaceNeed


def image_needs(models: Collection[str], *, context: Context) -> tuple[SpaceNeed, ...]:
    """What the images of the stacks that use ``models`` will take on the engine's disk, once each.

    Images that the engine holds take nothing. Nothing is known, and nothing counted, where no engine on this machine
    answers; a GPU image is not built where the engine has no GPUs to give.
    """
    images = _serving_images(models, context=context)
    if not images:
        return ()
    try:
        if not engine_address().startswith("unix:"):
            return ()
        info = engine_info()
        usable = [one for one in images if one.stage != Stage.GPU or _has_gpus(info)]
        lacking = [one for one in usable if image_id(one.reference) is None]
    except KitError as unreachable:
        context.say(f"{unreachable.cause}: no room is counted for an image")
        return ()
    sizes = read_image_sizes(package_text("image_sizes.toml"))
    return tuple(
        need_of(f"the image {image.reference}", info["DockerRootDir"], size)
        for image in lacking
        if (size := sizes.get(image.release or "", {}).get(image.stage))
    )


def _has_gpus(info: Mapping[str, Any]) -> bool:
    """Whether this machine's engine has GPUs to give: by its runtime, by CDI, or by the driver's device."""
    cdi = any("nvidia.com/gpu" in device for device in cdi_devices(info) or ())
    return cdi or "nvidia" in (info.get("Runtimes") or {}) or has_nvidia_driver()


def _serving_images(models: Collection[str], *, context: Context) -> tuple[ImageChoice, ...]:
    """The images of the kit's own that serve ``models``, by reference."""
    kit_dir = find_kit(context.kit_dir)
    chosen: dict[str, ImageChoice] = {}
    for stack in _stacks_with(load_kit_texts(kit_dir), models):
        if not stack.image.reference:
            texts = load_pin_texts(kit_dir, stack.image.name)
            image = choose_image(stack, Request(stack=stack.name), pin_texts=texts)
            chosen[image.reference] = image
    return tuple(image for _, image in sorted(chosen.items()))


def _stacks_with(texts: KitTexts, models: Collection[str]) -> tuple[Stack, ...]:
    return tuple(
        stack
        for stack in (found.stack for found in all_stacks(texts)[0])
        if any(model in models for model in stack.models)
    )
