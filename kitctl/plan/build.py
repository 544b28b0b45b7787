"""What is built, from what, under which name? A pin set and a machine decided down to one build request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from kitctl.errors import Exit, KitError
from kitctl.kit.near import did_you_mean
from kitctl.kit.pins import KERNEL_LIST, PinSet, Stage, base_tag, image_tag, text_hash

LABEL_INPUTS = "kitctl.inputs"
LABEL_PINS = "kitctl.pins"
LABEL_KERNELS = "kitctl.kernels"
NO_ARCH = "none"


class BaseKind(StrEnum):
    """Where the base comes from: made by the kit, named by digest, or a tag that may move (``unlocked``)."""

    KIT = "kit"
    DIGEST = "digest"
    UNLOCKED = "unlocked"


@dataclass(frozen=True, kw_only=True)
class Base:
    """The image that the build starts from."""

    reference: str
    kind: BaseKind


@dataclass(frozen=True, kw_only=True)
class BuildRequest:
    """One build, complete but for the secrets' texts and the folders on disk."""

    image: str
    release: str
    stage: str
    reference: str
    pins_hash: str
    inputs_hash: str
    base: Base
    platform: str
    build_args: Mapping[str, str]
    labels: Mapping[str, str]


def choose_base(pin_set: PinSet, given: str | None) -> Base:
    """The kit's own base image, or the one given; a reference without a digest is ``unlocked``."""
    if given is None:
        return Base(reference=base_tag(pin_set.base, pin_set.build), kind=BaseKind.KIT)
    return Base(reference=given, kind=BaseKind.DIGEST if "@sha256:" in given else BaseKind.UNLOCKED)


def choose_platform(pin_set: PinSet, given: str | None) -> str:
    """The platform to build for. Raises KitError ``no-such-platform`` (exit 2) for one without a lock."""
    known = pin_set.entry.platforms
    if given is None or given in known:
        return given or known[0]
    raise KitError(
        "no-such-platform",
        f"{pin_set.image} {pin_set.release} is not locked for {given}; {did_you_mean(given, known)}",
        remedy=f"kitctl build {pin_set.image} --platform {known[0]}",
        exit_code=Exit.USAGE,
    )


def choose_jit_archs(pin_set: PinSet, stage: str, given: tuple[str, ...]) -> tuple[str, ...]:
    """The archs to compile run-time kernels for: those given (``none``: no arch), else the pin set's.

    Raises KitError ``no-such-arch`` (exit 2) for one that the image is not built for.
    """
    if not given or given == (NO_ARCH,):
        return () if given or stage != Stage.GPU else pin_set.entry.jit_arch
    for arch in given:
        if arch not in pin_set.entry.arch or stage != Stage.GPU:
            raise KitError(
                "no-such-arch",
                f"{pin_set.image} {pin_set.release} ({stage}) is not built for {arch}",
                evidence=(f"gpu stage: {' '.join(pin_set.entry.arch)}",),
                remedy=f"kitctl build {pin_set.image} --stage gpu --jit-arch {' '.join(pin_set.entry.arch[:1])}",
                exit_code=Exit.USAGE,
            )
    return given


def plan_build(
    pin_set: PinSet,
    stage: str,
    *,
    base: Base,
    platform: str,
    recipe: Mapping[str, str],
    revision: str | None,
    jit_archs: tuple[str, ...] = (),
) -> BuildRequest:
    """The build of one stage; ``recipe`` maps the image folder's files (Dockerfile, scripts) to their texts.

    The inputs hash covers pins, recipe, base reference, stage and platform: an image that carries it as its
    label needs no build. Raises KitError ``no-kernel-list`` (exit 2) when run-time kernels are asked for and the
    recipe lists none.
    """
    if jit_archs and f"{pin_set.release}/{KERNEL_LIST}" not in recipe:
        raise KitError(
            "no-kernel-list",
            f"which run-time kernels {pin_set.image} {pin_set.release} needs is not listed",
            remedy=f"kitctl build {pin_set.image} --release {pin_set.release} --jit-arch {NO_ARCH}",
            exit_code=Exit.USAGE,
        )
    inputs = {
        "pins": pin_set.pins_hash,
        "recipe": {name: text_hash(text) for name, text in recipe.items()},
        "base": base.reference,
        "stage": stage,
        "platform": platform,
        "jit_archs": jit_archs,
    }
    inputs_hash = text_hash(json.dumps(inputs, sort_keys=True))
    return BuildRequest(
        image=pin_set.image,
        release=pin_set.release,
        stage=stage,
        reference=image_tag(pin_set, stage),
        pins_hash=pin_set.pins_hash,
        inputs_hash=inputs_hash,
        base=base,
        platform=platform,
        build_args={
            "BASE": base.reference,
            "SOURCE_DATE_EPOCH": str(pin_set.build.source_date_epoch),
            **({"JIT_ARCHS": " ".join(jit_archs)} if jit_archs else {}),
        },
        labels=_labels(pin_set, stage, base=base, inputs_hash=inputs_hash, revision=revision)
        | ({LABEL_KERNELS: " ".join(jit_archs)} if jit_archs else {}),
    )


def _labels(
    pin_set: PinSet, stage: str, *, base: Base, inputs_hash: str, revision: str | None
) -> dict[str, str]:
    labels = {
        "org.opencontainers.image.title": f"{pin_set.image} ({stage})",
        "org.opencontainers.image.version": pin_set.release,
        "org.opencontainers.image.base.name": base.reference,
        "kitctl.release": pin_set.release,
        "kitctl.stage": stage,
        "kitctl.cuda": pin_set.entry.cuda,
        "kitctl.arch": " ".join(pin_set.entry.arch),
        "kitctl.base": base.kind.value,
        LABEL_PINS: pin_set.pins_hash,
        LABEL_INPUTS: inputs_hash,
    }
    return labels | ({"org.opencontainers.image.revision": revision} if revision else {})


def is_current(labels: Mapping[str, str] | None, request: BuildRequest) -> bool:
    """Whether an image with these labels was built from exactly these inputs."""
    return labels is not None and labels.get(LABEL_INPUTS) == request.inputs_hash
