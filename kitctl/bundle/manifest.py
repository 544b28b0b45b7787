"""What does a bundle hold, and is its manifest sound?

A bundle is a folder: ``manifest.json``, ``SHA256SUMS``, plain files (the kit's wheels, a note), and parts. The parts,
one after the other, are one stream of objects: files of models, blobs of images, files of caches, stacks of the user's
own. An object is known by its sha256 alone; names and paths stand in the manifest, and no archive is unpacked anywhere.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec

from kitctl.bundle.cache import BundleCache, arch_of, entry_problems, holds_files
from kitctl.bundle.image_tree import ImageTree
from kitctl.errors import Exit, KitError
from kitctl.kit.image_record import ImageRecord
from kitctl.kit.models_lock import ModelsLock, Sha256, SizeBytes, is_safe_path, read_models_lock
from kitctl.plan.planner import cache_volume_prefix

SCHEMA = "kitctl.bundle/1"
MANIFEST_NAME = "manifest.json"
SUMS_NAME = "SHA256SUMS"
MAX_MANIFEST_BYTES = 256 * 1024**2
"""A manifest of 100,000 files is 30 MB; what is longer is none and is not read."""
_DIGEST = "sha256:"
_CONFIG = re.compile(r"(stacks|parts|overlays)/[^/]+\.yaml|addon-images\.yaml|addons/[^/]+/[^/]+")

Digest = Annotated[str, msgspec.Meta(pattern="^sha256:[0-9a-f]{64}$")]


class BundleFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of the bundle's folder by its relative path: a part, or a plain file."""

    path: str
    size_bytes: SizeBytes
    sha256: Sha256


class BundleObject(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object. ``offset_bytes``: where it starts in the stream; ``None`` when an older bundle holds it."""

    sha256: Sha256
    size_bytes: SizeBytes
    offset_bytes: SizeBytes | None = None


class BundleTree(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An image's digests; see ``ImageTree``."""

    media_type: str
    target: Digest
    target_bytes: SizeBytes
    config: Digest
    layers: tuple[Digest, ...]

    def tree(self) -> ImageTree:
        """The same as the type that readers and writers of images use."""
        return ImageTree(
            media_type=self.media_type,
            target=self.target,
            target_bytes=self.target_bytes,
            config=self.config,
            layers=self.layers,
        )


class BundleImage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An image: all its blobs, its build record and its bill of materials (an object), where the kit built it."""

    reference: str
    tree: BundleTree
    blobs: tuple[Digest, ...]
    record: ImageRecord | None = None
    bill: Sha256 | None = None


class BundleModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model of ``models_lock``: the object of each of its files by path."""

    repo: str
    objects: dict[str, Sha256]


class BundleStack(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stack that the bundle serves: its image, the pin set behind it, and its models."""

    name: str
    image: str
    pins_hash: str | None = None
    models: tuple[str, ...] = ()


class BundleConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stack, part, overlay or add-on file of the user's own: its path below the configuration folder, its object."""

    path: str
    sha256: Sha256


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole bundle. ``wish``: hash over what was asked for; ``since``: digest of the older bundle's manifest.

    ``own_models`` are the models whose entry comes from the user's own lock.
    """

    schema: str = SCHEMA
    kitctl: str
    made: str
    wish: str
    since: Sha256 | None = None
    stacks: tuple[BundleStack, ...]
    images: tuple[BundleImage, ...] = ()
    models: tuple[BundleModel, ...] = ()
    models_lock: str = ""
    own_models: tuple[str, ...] = ()
    config: tuple[BundleConfig, ...] = ()
    caches: tuple[BundleCache, ...] = ()
    objects: tuple[BundleObject, ...] = ()
    parts: tuple[BundleFile, ...] = ()
    files: tuple[BundleFile, ...] = ()

    @property
    def lock(self) -> ModelsLock:
        """The bundle's models with every file's hash. Raises KitError ``bad-lock`` (exit 2)."""
        return read_models_lock(self.models_lock, source=f"{MANIFEST_NAME}: models_lock")

    @property
    def stream_bytes(self) -> int:
        """Length of the stream of objects."""
        return sum(part.size_bytes for part in self.parts)


def manifest_text(manifest: Manifest) -> bytes:
    """The manifest as JSON."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def sums_text(manifest: Manifest, manifest_sha256: str) -> str:
    """``SHA256SUMS``, as sha256sum reads it: the manifest, the plain files, the parts."""
    rows = [(manifest_sha256, MANIFEST_NAME)]
    rows += [(file.sha256, file.path) for file in (*manifest.files, *manifest.parts)]
    return "".join(f"{digest}  {path}\n" for digest, path in rows)


def read_manifest(text: bytes) -> Manifest:
    """The manifest in ``text``. Raises KitError ``bundle-bad-manifest`` (exit 5) with what is wrong and where."""
    try:
        manifest = msgspec.json.decode(text, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as broken:
        raise bad_manifest(str(broken)) from broken
    for problem in _problems(manifest):
        raise bad_manifest(problem)
    return manifest


def digest_of(text: bytes) -> str:
    """The manifest's digest: what names a bundle."""
    return hashlib.sha256(text).hexdigest()


def bad_manifest(problem: str) -> KitError:
    """The error for a manifest that is not sound."""
    return KitError(
        "bundle-bad-manifest",
        f"{MANIFEST_NAME}: {problem}",
        remedy="copy the bundle again from where it was made; a newer kitctl may be needed for a newer bundle",
        exit_code=Exit.FETCH,
    )


def _problems(manifest: Manifest) -> Iterator[str]:
    if manifest.schema != SCHEMA:
        yield f"schema is {manifest.schema!r}, this kitctl reads {SCHEMA}"
        return
    yield from _path_problems(manifest)
    yield from _stream_problems(manifest)
    yield from _object_problems(manifest)
    yield from _model_problems(manifest)
    yield from _image_problems(manifest)
    yield from _cache_problems(manifest)


def _path_problems(manifest: Manifest) -> Iterator[str]:
    paths = [file.path for file in (*manifest.parts, *manifest.files)]
    taken = (MANIFEST_NAME, SUMS_NAME)
    for path in (*paths, *(one.path for one in manifest.config)):
        if not is_safe_path(path) or path in taken:
            yield f"{path!r} is not a plain path below the bundle"
    for path in _twice(paths):
        yield f"{path!r} is named twice"
    for one in manifest.config:
        if not _CONFIG.fullmatch(one.path):
            yield f"config: {one.path!r} is no stack, part, overlay or add-on"


def _stream_problems(manifest: Manifest) -> Iterator[str]:
    """Objects must lie one behind the other and fill the parts."""
    at = 0
    placed = [one for one in manifest.objects if one.offset_bytes is not None]
    for one in placed:
        if one.offset_bytes != at:
            yield f"objects: {one.sha256} starts at {one.offset_bytes}, not at {at}"
            return
        at += one.size_bytes
    if at != manifest.stream_bytes:
        yield f"parts hold {manifest.stream_bytes} bytes and objects {at}"
    if len(placed) < len(manifest.objects) and manifest.since is None:
        yield "objects of an older bundle are named, but since is not"


def _object_problems(manifest: Manifest) -> Iterator[str]:
    for digest in _twice([one.sha256 for one in manifest.objects]):
        yield f"objects: {digest} is named twice"
    known = {one.sha256 for one in manifest.objects}
    for digest in sorted(named_objects(manifest) - known):
        yield f"{digest} is named and is none of the objects"


def named_objects(manifest: Manifest) -> set[str]:
    """The objects that images, models, caches and configuration consist of."""
    blobs = {blob.removeprefix(_DIGEST) for image in manifest.images for blob in image.blobs}
    bills = {image.bill for image in manifest.images if image.bill is not None}
    files = {digest for model in manifest.models for digest in model.objects.values()}
    cached = {digest for cache in manifest.caches for digest in cache.objects}
    return blobs | bills | files | cached | {one.sha256 for one in manifest.config}


def _model_problems(manifest: Manifest) -> Iterator[str]:
    entries = {entry.repo: entry for entry in manifest.lock.models}
    for repo in _twice([model.repo for model in manifest.models]):
        yield f"models: {repo} is named twice"
    sizes = {one.sha256: one.size_bytes for one in manifest.objects}
    for model in manifest.models:
        entry = entries.get(model.repo)
        if entry is None or {file.path for file in entry.files} != set(model.objects):
            yield f"models: {model.repo} does not have the files that models_lock names"
            continue
        for file in entry.files:
            digest = model.objects[file.path]
            if sizes.get(digest) != file.size_bytes or file.sha256 not in (None, digest):
                yield f"models: {model.repo}: {file.path} is not the file that models_lock names"
    for repo in set(manifest.own_models) - entries.keys():
        yield f"own_models: {repo} is not in models_lock"


def _image_problems(manifest: Manifest) -> Iterator[str]:
    for reference in _twice([image.reference for image in manifest.images]):
        yield f"images: {reference} is named twice"
    for image in manifest.images:
        missing = {image.tree.target, image.tree.config, *image.tree.layers} - set(image.blobs)
        if missing:
            yield f"images: {image.reference} lacks {sorted(missing)[0]}"
        record = image.record
        if record is not None and (
            record.reference != image.reference
            or record.image_id not in (image.tree.target, image.tree.config)
        ):
            yield f"images: the record of {image.reference} is of another image"
    known = {image.reference for image in manifest.images}
    for stack in manifest.stacks:
        if stack.image not in known:
            yield f"stacks: {stack.name}: the bundle has no image {stack.image}"


def _cache_problems(manifest: Manifest) -> Iterator[str]:
    """A cache must be of the very image that the bundle brings, and hold nothing that leads out of its volume."""
    images = {image.reference: image for image in manifest.images}
    for volume in _twice([cache.volume for cache in manifest.caches]):
        yield f"caches: {volume} is named twice"
    for cache in manifest.caches:
        image = images.get(cache.image)
        if image is None or image.record is None:
            yield f"caches: {cache.volume}: the bundle has no image {cache.image} with a record"
            continue
        prefix = cache_volume_prefix(image.record.pins_hash, image.record.stage)
        if cache.image_id != image.tree.config or arch_of(cache.volume, prefix) != cache.arch:
            yield f"caches: {cache.volume} is the cache of another image than {cache.image}"
        if not holds_files(cache.entries):
            yield f"caches: {cache.volume} is empty"
        for problem in entry_problems(cache.entries):
            yield f"caches: {cache.volume}: {problem}"


def _twice(names: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            yield name
        seen.add(name)
