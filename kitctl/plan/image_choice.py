"""Which image serves a stack?"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping

import msgspec

from kitctl.kit.pins import LOCK_FILES, Stage, choose_release, image_tag, load_pin_set, read_pins
from kitctl.kit.stack import Stack
from kitctl.plan.types import ImageChoice, Request


def choose_image(stack: Stack, request: Request, *, pin_texts: Mapping[str, str]) -> ImageChoice:
    """The image by ``--image``, by the stack's own reference, or by the pin set of its release.

    ``pin_texts`` are the texts of ``images/NAME`` by relative path. The release names the flag spelling also of an
    image that the kit did not build. Raises KitError (exit 2) for a release that has no pin set.
    """
    source = f"images/{stack.image.name}/pins.toml"
    pins = read_pins(pin_texts.get("pins.toml", ""), source=source)
    release = choose_release(pins, release=stack.image.release)
    own = request.image or stack.image.reference
    if own:
        return ImageChoice(reference=own, release=release, stage=stack.image.stage, name=None)
    lock = {name: text for name in LOCK_FILES if (text := pin_texts.get(f"{release}/{name}")) is not None}
    pin_set = load_pin_set(pins, release, lock)
    return ImageChoice(
        reference=image_tag(pin_set, stack.image.stage),
        release=release,
        stage=stack.image.stage,
        name=stack.image.name,
        pins_hash=pin_set.pins_hash,
        cuda=pin_set.entry.cuda,
        archs=pin_set.entry.served if stack.image.stage == Stage.GPU else None,
    )


def read_image_sizes(text: str) -> dict[str, dict[str, int]]:
    """Bytes on the engine's disk by release and stage, from ``data/image_sizes.toml``."""
    return msgspec.convert(tomllib.loads(text), dict[str, dict[str, int]])
