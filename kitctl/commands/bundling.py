"""What a bundle of these stacks must hold, and whether a folder holds it already."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from kitctl import __version__
from kitctl.bundle.manifest import BundleStack
from kitctl.commands.bundle_caches import FoundCache, found_caches
from kitctl.commands.image_proof import prove_image
from kitctl.edge.bundle_reader import Bundle, is_bundle, open_bundle
from kitctl.edge.docker_engine import image_id
from kitctl.edge.kit_files import load_kit_texts, load_pin_texts
from kitctl.edge.lock_file import Locks, read_locks
from kitctl.errors import Exit, KitError
from kitctl.kit.addon_images import IMAGES_FILE
from kitctl.kit.catalog import (
    KitTexts,
    addon_images,
    load_overlays,
    named_texts,
    pick_named_overlay,
    resolve_stack,
)
from kitctl.kit.models_lock import LockState, ModelEntry, find_entry, require_proven
from kitctl.kit.pins import Stage, text_hash
from kitctl.kit.stack import Stack
from kitctl.kit.yaml_reader import read_yaml
from kitctl.plan.addons import addon_services
from kitctl.plan.image_choice import choose_image
from kitctl.plan.types import ImageChoice, Request


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """All that was asked for. ``ids``: the images' ids on this engine; ``wish``: one hash over everything.

    ``addons`` are the images of add-ons: what the plan asks the engine for, and the name under which it is loaded.
    ``caches``: ``None`` when they are left out.
    """

    stacks: tuple[BundleStack, ...]
    images: tuple[ImageChoice, ...]
    addons: tuple[tuple[str, str], ...]
    ids: tuple[str, ...]
    entries: tuple[ModelEntry, ...]
    own_models: tuple[str, ...]
    config: dict[str, str]
    part_bytes: int
    since: str | None
    pythons: tuple[str, ...]
    with_kit: bool
    caches: tuple[FoundCache, ...] | None
    wish: str = ""


def wanted_of(
    kit_dir: str,
    args: argparse.Namespace,
    *,
    since: Bundle | None,
    part_bytes: int,
    say: Callable[[str], None],
) -> Wanted:
    """What the command line asks for. Raises KitError (exit 2, 3 or 5) for what is not here or not proven."""
    texts, locks = load_kit_texts(kit_dir), read_locks(kit_dir)
    names = tuple(dict.fromkeys(args.stacks))
    stacks = [resolve_stack(texts, name).stack for name in names]
    rows = [bundle_stack(kit_dir, stack, image=args.image) for stack in stacks]
    images = tuple({choice.reference: choice for _, choice in rows}.values())
    on_gpus = any(stack.image.stage != Stage.CPU for stack in stacks)
    addons = _addon_images(texts, tuple(args.add), on_gpus=on_gpus)
    entries = _entries(locks, stacks)
    found = Wanted(
        stacks=tuple(row for row, _ in rows),
        images=images,
        addons=addons,
        ids=tuple(_proven_id(image) for image in (*images, *(_others(name) for name, _ in addons))),
        entries=entries,
        own_models=tuple(entry.repo for entry in entries if locks.is_users(entry.repo)),
        config=own_texts(texts, names),
        part_bytes=part_bytes,
        since=since.digest if since else None,
        pythons=tuple(sorted(set(args.python))),
        with_kit=not args.no_kit,
        caches=None if args.no_caches else found_caches(images, say=say),
    )
    return _with_wish(found)


def bundle_stack(kit_dir: str, stack: Stack, *, image: str | None) -> tuple[BundleStack, ImageChoice]:
    """A stack as a bundle names it, and the image that serves it."""
    request = Request(stack=stack.name, image=image)
    choice = choose_image(stack, request, pin_texts=load_pin_texts(kit_dir, stack.image.name))
    row = BundleStack(
        name=stack.name, image=choice.reference, pins_hash=choice.pins_hash, models=stack.models
    )
    return row, choice


def _addon_images(texts: KitTexts, names: tuple[str, ...], *, on_gpus: bool) -> tuple[tuple[str, str], ...]:
    """Exact reference and readable name of every image that the add-ons run, those that watch GPUs where there are any.

    Raises KitError ``unknown-overlay``, ``addon-alone``, ``unknown-addon-image`` (exit 2).
    """
    known, images = load_overlays(texts), addon_images(texts)
    overlays = [pick_named_overlay(known, name) for name in dict.fromkeys(names)]
    services = addon_services(overlays, images, on_gpus=on_gpus)
    readable = {image.exact: image.reference.partition("@")[0] for image in images.values()}
    return tuple(dict.fromkeys((service.image, readable[service.image]) for service in services))


def _others(reference: str) -> ImageChoice:
    """An image that the kit does not build."""
    return ImageChoice(reference=reference, release=None, stage="", name=None)


def own_texts(texts: KitTexts, names: tuple[str, ...]) -> dict[str, str]:
    """The user's own files that the stacks rest on: the stacks themselves, their parts, every overlay and add-on."""
    stacks, parts = named_texts(texts, "stacks"), named_texts(texts, "parts")
    used = {part for name in names for part in _uses(stacks[name].text, stacks[name].source)}
    found = {f"stacks/{name}.yaml": stacks[name] for name in names}
    found |= {f"parts/{part}.yaml": parts[part] for part in used if part in parts}
    found |= {f"overlays/{name}.yaml": one for name, one in named_texts(texts, "overlays").items()}
    own = {path: one.text for path, one in sorted(found.items()) if one.is_users}
    addons = {p: text for p, text in texts.user.items() if p == IMAGES_FILE or p.startswith("addons/")}
    return own | dict(sorted(addons.items()))


def _uses(text: str, source: str) -> list[str]:
    return [str(part) for part in read_yaml(text, source=source).get("uses") or []]


def _entries(locks: Locks, stacks: list[Stack]) -> tuple[ModelEntry, ...]:
    """The lock entries of the stacks' models; what every kitctl brings is left out."""
    models = {model for stack in stacks for model in stack.models}
    entries = [find_entry(locks.merged, model) for model in sorted(models)]
    carried = [entry for entry in entries if entry.state is not LockState.SHIPPED]
    for entry in carried:
        require_proven(entry)
    return tuple(carried)


def _proven_id(choice: ImageChoice) -> str:
    found = image_id(choice.reference)
    if found is None:
        raise KitError(
            "image-missing",
            f"the image {choice.reference} is not on this engine, so it cannot be carried",
            remedy=f"kitctl build {choice.name} --release {choice.release} --stage {choice.stage}"
            if choice.name
            else f"docker pull {choice.reference}",
            exit_code=Exit.REFUSED,
        )
    prove_image(choice)
    return found


def _with_wish(found: Wanted) -> Wanted:
    body = msgspec.to_builtins(found) | {"kitctl": __version__, "entries": _entry_hashes(found.entries)}
    return replace(found, wish=text_hash(json.dumps(body, sort_keys=True)))


def _entry_hashes(entries: tuple[ModelEntry, ...]) -> dict[str, list[str]]:
    return {entry.repo: [f"{file.path} {file.blob_name}" for file in entry.files] for entry in entries}


def whole_already(folder: str, wanted: Wanted) -> Bundle | None:
    """The bundle that an earlier run finished. Raises KitError ``bundle-exists`` (exit 3) for another one."""
    if not is_bundle(folder):
        return None
    there = open_bundle(folder)
    if there.manifest.wish == wanted.wish:
        return there
    raise KitError(
        "bundle-exists",
        f"{folder} holds another bundle",
        evidence=(
            f"stacks: {', '.join(stack.name for stack in there.manifest.stacks)}",
            f"made {there.manifest.made}",
        ),
        remedy=f"name another folder with -o (--since {folder} carries only what is new), or rm -r {folder}",
        exit_code=Exit.REFUSED,
    )
