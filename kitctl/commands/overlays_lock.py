"""``kitctl overlays lock``: pin the images of the add-ons' services by the digests that their registries name."""

from __future__ import annotations

import argparse

from kitctl.edge.docker_engine import registry_digest
from kitctl.edge.environment import config_dir
from kitctl.edge.files import read_text_if_there, write_atomic
from kitctl.edge.kit_files import find_kit
from kitctl.errors import Exit, KitError
from kitctl.kit.addon_images import IMAGES_FILE, AddonImage, read_addon_images, write_digest
from kitctl.kit.near import did_you_mean
from kitctl.result import Context, Result


def run(args: argparse.Namespace, context: Context) -> Result:
    """All digests are asked for before one is written. Raises KitError ``unknown-addon-image`` (exit 2),
    ``registry-refused`` (exit 5), ``engine-unreachable`` (exit 10)."""
    texts = {path: read_text_if_there(path) or "" for path in _files(context)}
    entries = _winning({path: read_addon_images(text, source=path) for path, text in texts.items()})
    _require_known(args.images, entries)
    rows = []
    for path, images in entries.items():
        for name, image in images.items():
            if args.images and name not in args.images:
                continue
            digest = registry_digest(image.reference.partition("@")[0])
            rows.append({"name": name, "reference": image.reference, "digest": digest, "file": path})
            texts[path] = write_digest(texts[path], name, digest)
    for path in {str(row["file"]) for row in rows}:
        write_atomic(path, texts[path])
    lines = tuple(f"{row['name']:14} {row['reference']} is {row['digest']}" for row in rows)
    return Result(data={"schema": "kitctl.overlays-lock/1", "images": rows}, lines=lines)


def _files(context: Context) -> tuple[str, str]:
    return (f"{find_kit(context.kit_dir)}/compose/{IMAGES_FILE}", f"{config_dir()}/{IMAGES_FILE}")


def _winning(entries: dict[str, dict[str, AddonImage]]) -> dict[str, dict[str, AddonImage]]:
    """Without the kit's entries that the user's own file replaces; the user's file comes last."""
    *_, own = entries.values()
    *kits, last = entries
    return {path: {n: i for n, i in entries[path].items() if n not in own} for path in kits} | {last: own}


def _require_known(wanted: list[str], entries: dict[str, dict[str, AddonImage]]) -> None:
    known = [name for images in entries.values() for name in images]
    strange = [name for name in wanted if name not in known]
    if strange:
        raise KitError(
            "unknown-addon-image",
            f"{IMAGES_FILE} has no image {strange[0]!r}",
            evidence=(did_you_mean(strange[0], known),),
            remedy=f"name one of: {' '.join(known)}",
            exit_code=Exit.USAGE,
        )
