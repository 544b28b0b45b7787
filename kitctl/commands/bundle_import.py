"""``kitctl bundle import``: prove a bundle, then put models, images, caches and stacks where ``up`` looks for them."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from kitctl.bundle.cache import BundleCache
from kitctl.bundle.manifest import BundleImage
from kitctl.commands.bundle_caches import (
    CacheTaken,
    check_half_filled,
    missing_caches,
    object_bytes,
    take_in_caches,
)
from kitctl.commands.bundle_config import check_config, check_kit, put_config
from kitctl.commands.bundle_proving import ProvenBundle, prove
from kitctl.commands.models_common import store_of
from kitctl.edge.bundle_images import adopt_image, engine_root, is_on_engine
from kitctl.edge.bundle_place import missing_files, place_model
from kitctl.edge.docker_client import require_engine
from kitctl.edge.docker_engine import image_id
from kitctl.edge.files import absolute
from kitctl.edge.gauge import Gauge, telling
from kitctl.edge.kit_files import find_kit
from kitctl.edge.locks import project_lock
from kitctl.edge.room import check_room, need_of
from kitctl.errors import Exit, KitError
from kitctl.kit.models_lock import LockedFile, ModelEntry
from kitctl.result import Context, Result
from kitctl.store.sizes import size_text

SCHEMA = "kitctl.bundle-import/1"


@dataclass(frozen=True, kw_only=True)
class Todo:
    """What is not here yet: files by model, images, and cache volumes."""

    files: dict[str, tuple[LockedFile, ...]]
    images: tuple[BundleImage, ...]
    caches: tuple[BundleCache, ...]

    @property
    def file_bytes(self) -> int:
        """What the store will take."""
        return sum({f.blob_name: f.size_bytes for files in self.files.values() for f in files}.values())


def run(args: argparse.Namespace, context: Context) -> Result:
    """Everything is proven and every refusal is made before the first change. Raises KitError (exit 2, 3, 5, 6, 10)."""
    require_engine()
    kit_dir, store = find_kit(context.kit_dir), store_of(args)
    with project_lock("bundle-import", verb=f"bundle import {args.bundle}"):
        bases = tuple(absolute(folder) for folder in args.base)
        proven = prove(absolute(args.bundle), bases=bases, digest=args.digest, context=context)
        check_kit(kit_dir, proven)
        check_config(kit_dir, proven, store=store, replace=args.replace_config)
        entries = proven.bundle.manifest.lock.models
        todo = _todo(entries, proven, store)
        _require_objects(proven, todo)
        check_half_filled(todo.caches)
        _check_room(todo, proven, store)
        _take_in(entries, proven, todo, store=store, context=context)
        caches = take_in_caches(proven, say=context.say)
        written = put_config(kit_dir, proven, store=store)
    return _result(proven, todo, caches, written)


def _todo(entries: tuple[ModelEntry, ...], proven: ProvenBundle, store: str) -> Todo:
    images = proven.bundle.manifest.images
    return Todo(
        files={entry.repo: missing_files(entry, store) for entry in entries},
        images=tuple(image for image in images if not is_on_engine(image)),
        caches=missing_caches(proven.bundle.manifest),
    )


def _require_objects(proven: ProvenBundle, todo: Todo) -> None:
    """Raises KitError ``bundle-needs-base`` (exit 5) when the bundle rests on an older one that is not named."""
    manifest = proven.bundle.manifest
    digests = {model.repo: model.objects for model in manifest.models}
    wanted = {digests[repo][file.path] for repo, files in todo.files.items() for file in files}
    wanted |= {blob.removeprefix("sha256:") for image in todo.images for blob in image.blobs}
    wanted |= {one.sha256 for one in manifest.config} | {
        image.bill for image in manifest.images if image.bill
    }
    wanted |= {digest for cache in todo.caches for digest in cache.objects}
    lacking = wanted & proven.lacking
    if lacking:
        raise KitError(
            "bundle-needs-base",
            f"{len(lacking)} objects lie in an older bundle, on which this one rests",
            evidence=(f"the older bundle's digest: {manifest.since}",),
            remedy="name its folder with --base DIR, or import it first if only models lack",
            exit_code=Exit.FETCH,
        )


def _check_room(todo: Todo, proven: ProvenBundle, store: str) -> None:
    root = engine_root()
    needs = [
        need_of(f"the image {image.reference}", root, _image_room(image, proven))
        for image in todo.images
        if root is not None
    ]
    needs += [
        need_of(f"the cache {cache.volume}", root, object_bytes(cache, proven))
        for cache in todo.caches
        if root is not None
    ]
    check_room("the bundle's models", store, needed_bytes=todo.file_bytes, others=needs)


def _image_room(image: BundleImage, proven: ProvenBundle) -> int:
    """Bytes that the engine will take: the blobs, and what they are unpacked, which only a record knows."""
    blobs = sum(proven.objects.size_bytes(blob.removeprefix("sha256:")) for blob in image.blobs)
    return blobs + (image.record.size_bytes if image.record else 2 * blobs)


def _take_in(
    entries: tuple[ModelEntry, ...], proven: ProvenBundle, todo: Todo, *, store: str, context: Context
) -> None:
    digests = {model.repo: model.objects for model in proven.bundle.manifest.models}
    gauge = Gauge("models", todo.file_bytes)
    with telling(gauge.line, context.say, every_s=context.tell_every_s):
        for entry in entries:
            place_model(
                entry,
                proven.objects,
                digests[entry.repo],
                store_dir=store,
                missing=todo.files[entry.repo],
                came=gauge.came,
                say=context.say,
            )
    for image in proven.bundle.manifest.images:
        is_new = image in todo.images
        if is_new:
            other = image_id(image.reference)
            context.say(
                f"image: loading {image.reference}{f', which replaces {other} here' if other else ''}"
            )
        adopt_image(image, proven.objects, load=is_new)


def _result(
    proven: ProvenBundle, todo: Todo, caches: tuple[CacheTaken, ...], written: tuple[str, ...]
) -> Result:
    manifest = proven.bundle.manifest
    loaded = {image.reference for image in todo.images}
    data = {
        "schema": SCHEMA,
        "folder": proven.bundle.folder,
        "digest": proven.bundle.digest,
        "stacks": [stack.name for stack in manifest.stacks],
        "images": [
            {"reference": image.reference, "loaded": image.reference in loaded} for image in manifest.images
        ],
        "models": [
            {"name": model.repo, "files_written": len(todo.files[model.repo])} for model in manifest.models
        ],
        "caches": [{"volume": one.volume, "filled": one.is_filled, "detail": one.detail} for one in caches],
        "written_bytes": todo.file_bytes,
        "config": list(written),
    }
    lines = [
        f"image {image.reference}: {'loaded' if image.reference in loaded else 'was there already'}, id as recorded"
        for image in manifest.images
    ]
    lines += [
        f"model {model.repo}: {len(todo.files[model.repo])} of {len(model.objects)} files written, all proven"
        for model in manifest.models
    ]
    lines += [f"cache {one.volume}: {one.detail}" for one in caches]
    lines += [f"yours {path}" for path in written]
    if todo.file_bytes:
        lines.append(f"{size_text(todo.file_bytes)} of models written to the store")
    first = manifest.stacks[0]
    lines.append(f"next: kitctl up {first.name}{'' if first.pins_hash else f' --image {first.image}'}")
    return Result(data=data, lines=tuple(lines))
