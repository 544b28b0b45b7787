"""``kitctl bundle export``: a folder with all that stacks need on a host without network."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from kitctl import __version__
from kitctl.bundle.cache import BundleCache
from kitctl.bundle.image_tree import ImageTree
from kitctl.bundle.layout import DEFAULT_PART_BYTES
from kitctl.bundle.manifest import (
    BundleConfig,
    BundleImage,
    BundleModel,
    BundleTree,
    Manifest,
)
from kitctl.commands.building import BuildWish, existing_record
from kitctl.commands.bundle_caches import add_cache, cache_row, export_lines
from kitctl.commands.bundling import Wanted, wanted_of, whole_already
from kitctl.commands.models_common import store_of
from kitctl.commands.smoking import bill_of_materials
from kitctl.edge.bundle_kit import plain_files, write_kit, write_manifest, write_readme
from kitctl.edge.bundle_place import file_chunks, hash_both
from kitctl.edge.bundle_reader import Bundle, open_bundle
from kitctl.edge.bundle_writer import BundleWriter
from kitctl.edge.docker_client import require_engine
from kitctl.edge.files import absolute
from kitctl.edge.gauge import Gauge, telling
from kitctl.edge.image_archive import Saved, image_bytes, read_image
from kitctl.edge.image_store import load_bill
from kitctl.edge.kit_files import find_kit
from kitctl.edge.locks import project_lock
from kitctl.edge.room import check_room
from kitctl.edge.runs import now_utc
from kitctl.edge.verify import verify_model
from kitctl.errors import Exit, KitError
from kitctl.kit.image_record import ImageRecord
from kitctl.kit.models_lock import ModelEntry, ModelsLock
from kitctl.kit.models_lock_text import write_models_lock
from kitctl.kit.pins import text_hash
from kitctl.plan.types import ImageChoice
from kitctl.result import Context, Result
from kitctl.store.sizes import size_text
from kitctl.store.verify_report import require_ready

SCHEMA = "kitctl.bundle-export/1"


def run(args: argparse.Namespace, context: Context) -> Result:
    """Write the bundle. Raises KitError (exit 2, 3, 5, 6 or 10); what is whole already is not written again."""
    require_engine()
    kit_dir, folder = find_kit(context.kit_dir), absolute(args.output)
    since = open_bundle(absolute(args.since)) if args.since else None
    size = args.part_size or DEFAULT_PART_BYTES
    wanted = wanted_of(kit_dir, args, since=since, part_bytes=size, say=context.say)
    with project_lock(f"bundle-{text_hash(folder)[:16]}", verb=f"bundle export -o {folder}"):
        there = whole_already(folder, wanted)
        if there is not None:
            return _result(there, wanted, written_bytes=0)
        return _export(kit_dir, wanted, folder, store=store_of(args), since=since, context=context)


def _export(
    kit_dir: str, wanted: Wanted, folder: str, *, store: str, since: Bundle | None, context: Context
) -> Result:
    held = {one.sha256: one.size_bytes for one in since.manifest.objects} if since else {}
    places = {entry.repo: _model_folder(entry, store, context) for entry in wanted.entries}
    writer = BundleWriter(folder, part_bytes=wanted.part_bytes, wish=wanted.wish, held=held)
    try:
        filled = _fill(writer, kit_dir, wanted, places, total=_needed_bytes(wanted, held), context=context)
        parts = writer.finish()
    finally:
        writer.close()
    context.say("kitctl itself" if wanted.with_kit else "without kitctl itself")
    if wanted.with_kit:
        write_kit(folder, pythons=wanted.pythons)
    write_readme(folder)
    manifest = Manifest(
        kitctl=__version__,
        made=now_utc(),
        wish=wanted.wish,
        since=wanted.since,
        stacks=wanted.stacks,
        images=filled.images,
        models=filled.models,
        models_lock=write_models_lock(ModelsLock(models=wanted.entries)),
        own_models=wanted.own_models,
        config=filled.config,
        caches=filled.caches,
        objects=writer.in_order(),
        parts=parts,
        files=plain_files(folder),
    )
    write_manifest(folder, manifest)
    writer.remove_journal()
    return _result(open_bundle(folder), wanted, written_bytes=manifest.stream_bytes - writer.resumed_bytes)


@dataclass(frozen=True, kw_only=True)
class Filled:
    """What lies in the parts."""

    images: tuple[BundleImage, ...]
    models: tuple[BundleModel, ...]
    config: tuple[BundleConfig, ...]
    caches: tuple[BundleCache, ...]


def _fill(
    writer: BundleWriter,
    kit_dir: str,
    wanted: Wanted,
    places: Mapping[str, PurePosixPath],
    *,
    total: int,
    context: Context,
) -> Filled:
    """Write every object that is not there yet. Raises KitError ``disk-full`` before the first (exit 3)."""
    check_room("the bundle", writer.folder, needed_bytes=max(0, total - writer.resumed_bytes))
    if writer.resumed_bytes:
        context.say(f"going on behind {size_text(writer.resumed_bytes)} of an export that was cut off")
    gauge = Gauge("bundle", total)
    gauge.had(writer.resumed_bytes)
    with telling(gauge.line, context.say, every_s=context.tell_every_s):
        models = tuple(_add_model(e, places[e.repo], writer, gauge.came) for e in wanted.entries)
        config = tuple(_add_config(path, text, writer) for path, text in wanted.config.items())
        images = tuple(_add_image(kit_dir, one, writer, gauge.came) for one in wanted.images)
        addons = tuple(_add_addon(*names, writer=writer, came=gauge.came) for names in wanted.addons)
        caches = tuple(add_cache(one, images, writer, gauge.came) for one in wanted.caches or ())
    return Filled(images=(*images, *addons), models=models, config=config, caches=caches)


def _model_folder(entry: ModelEntry, store: str, context: Context) -> PurePosixPath:
    """Where the model's files lie. Raises KitError ``model-not-ready`` (exit 3) when one is missing."""
    looked = verify_model(entry, store, deep=False, say=context.say)
    require_ready(looked.report)
    return looked.place.host_dir


def _needed_bytes(wanted: Wanted, held: dict[str, int]) -> int:
    """What the parts will hold at most: files of models and caches that the older bundle lacks, and whole images."""
    files = {file.blob_name: file.size_bytes for entry in wanted.entries for file in entry.files}
    for cache in wanted.caches or ():
        files |= cache.content.sizes
    missing = sum(size for name, size in files.items() if name not in held)
    references = [*(image.reference for image in wanted.images), *(exact for exact, _ in wanted.addons)]
    return missing + sum(image_bytes(reference) for reference in references)


def _add_model(
    entry: ModelEntry, folder: PurePosixPath, writer: BundleWriter, came: Callable[[int], None]
) -> BundleModel:
    objects = {}
    for file in entry.files:
        path = str(folder / file.path)
        digest = file.sha256 or hash_both(path, file)
        objects[file.path] = digest
        if not writer.has(digest):
            chunks = _told(file_chunks(path), came)
            what = f"{entry.repo}: {file.path}"
            writer.add(chunks, sha256=digest, size_bytes=file.size_bytes, what=what)
    return BundleModel(repo=entry.repo, objects=objects)


def _add_config(path: str, text: str, writer: BundleWriter) -> BundleConfig:
    return BundleConfig(path=path, sha256=_add_text(text, writer, what=path))


def _add_text(text: str, writer: BundleWriter, *, what: str) -> str:
    """A short text goes into every bundle, also into one that rests on an older one."""
    digest = text_hash(text)
    if not writer.is_written(digest):
        raw = text.encode()
        writer.add([raw], sha256=digest, size_bytes=len(raw), what=what)
    return digest


def _add_image(
    kit_dir: str, image: ImageChoice, writer: BundleWriter, came: Callable[[int], None]
) -> BundleImage:
    """The image's blobs that are not written yet, its record and its bill of materials."""
    saved = _write_image(image.reference, writer, came)
    reference = image.reference

    record, bill = _papers(kit_dir, image)
    if record is not None and record.image_id not in saved.tree.ids:
        raise _replaced(reference)
    return BundleImage(
        reference=reference,
        tree=_tree(saved.tree),
        blobs=tuple(sorted(saved.blobs)),
        record=record,
        bill=_add_text(bill, writer, what=f"bill of materials of {reference}") if bill else None,
    )


def _add_addon(exact: str, name: str, *, writer: BundleWriter, came: Callable[[int], None]) -> BundleImage:
    """An add-on's image, taken by its exact reference and loaded under its readable name."""
    saved = _write_image(exact, writer, came)
    return BundleImage(reference=name, tree=_tree(saved.tree), blobs=tuple(sorted(saved.blobs)))


def _write_image(reference: str, writer: BundleWriter, came: Callable[[int], None]) -> Saved:
    """Read the image and write the blobs that no bundle holds yet."""

    def sink(digest: str, size_bytes: int, chunks: Iterator[bytes]) -> None:
        sha256 = digest.removeprefix("sha256:")
        if not writer.has(sha256):
            told = _told(chunks, came)
            writer.add(told, sha256=sha256, size_bytes=size_bytes, what=f"image {reference}: {digest}")

    return read_image(reference, sink=sink)


def _papers(kit_dir: str, image: ImageChoice) -> tuple[ImageRecord | None, str | None]:
    """Record and bill of materials of an image that the kit builds, made now where they were never written."""
    if image.name is None:
        return None, None
    record = existing_record(kit_dir, BuildWish(image=image.name, release=image.release, stage=image.stage))
    return record, load_bill(record) or bill_of_materials(kit_dir, record)


def _replaced(reference: str) -> KitError:
    return KitError(
        "bundle-source-changed",
        f"{reference} became another image while it was read",
        remedy="run the export again",
        exit_code=Exit.FETCH,
    )


def _tree(tree: ImageTree) -> BundleTree:
    return BundleTree(
        media_type=tree.media_type,
        target=tree.target,
        target_bytes=tree.target_bytes,
        config=tree.config,
        layers=tree.layers,
    )


def _told(chunks: Iterator[bytes], came: Callable[[int], None]) -> Iterator[bytes]:
    for chunk in chunks:
        came(len(chunk))
        yield chunk


def _result(bundle: Bundle, wanted: Wanted, *, written_bytes: int) -> Result:
    manifest = bundle.manifest
    left_out = sum(one.size_bytes for one in manifest.objects if one.offset_bytes is None)
    data = {
        "schema": SCHEMA,
        "folder": bundle.folder,
        "digest": bundle.digest,
        "stacks": [stack.name for stack in manifest.stacks],
        "images": [image.reference for image in manifest.images],
        "models": [model.repo for model in manifest.models],
        "caches": [cache_row(cache, manifest) for cache in manifest.caches],
        "parts": len(manifest.parts),
        "size_bytes": manifest.stream_bytes,
        "in_older_bundle_bytes": left_out,
        "written_bytes": written_bytes,
    }
    size = f"{size_text(manifest.stream_bytes)} in {len(manifest.parts)} part{'s' if len(manifest.parts) != 1 else ''}"
    older = f", {size_text(left_out)} more lie in the older bundle" if left_out else ""
    lines = (
        f"{bundle.folder}: {size}{older}{'' if written_bytes else ' (whole already, nothing written)'}",
        *(f"  image {image.reference}" for image in manifest.images),
        *(f"  model {model.repo}" for model in manifest.models),
        *export_lines(manifest, with_caches=wanted.caches is not None),
        f"digest {bundle.digest}",
        "on the other host: sh kit/install.sh, then kitctl bundle import DIR --digest DIGEST",
    )
    return Result(data=data, lines=lines)
