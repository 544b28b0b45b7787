"""Caches of compiled kernels in a bundle: which volumes an export takes, which ones an import fills."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from kitctl.bundle.cache import (
    BundleCache,
    arch_of,
    holds_files,
    is_of_other_image,
    volume_labels,
)
from kitctl.bundle.manifest import BundleImage, Manifest
from kitctl.commands.bundle_proving import ProvenBundle
from kitctl.edge.bundle_writer import BundleWriter
from kitctl.edge.cache_volumes import (
    CacheContent,
    cache_volumes,
    copy_files,
    drop_volume,
    fill_volume,
    has_content,
    is_half_filled,
    read_content,
    require_free,
)
from kitctl.edge.docker_engine import image_id
from kitctl.edge.locks import project_lock
from kitctl.errors import Exit, KitError
from kitctl.plan.planner import cache_volume_prefix
from kitctl.plan.types import ImageChoice
from kitctl.store.sizes import size_text

_WAIT_S = 120.0
"""For another kitctl that reads or fills the same volume."""


@dataclass(frozen=True, kw_only=True)
class FoundCache:
    """A cache volume of this engine that is carried. ``image``: the reference of the image that it belongs to."""

    image: str
    arch: str
    content: CacheContent


def found_caches(images: Iterable[ImageChoice], *, say: Callable[[str], None]) -> tuple[FoundCache, ...]:
    """The cache volumes of the images that the kit builds, read through. Others share one volume, which names no image.

    Raises KitError ``cache-unsafe``, ``stack-busy`` (exit 3) and what the engine says (exit 6 or 10).
    """
    found: list[FoundCache] = []
    for image in images:
        if image.pins_hash is not None:
            prefix = cache_volume_prefix(image.pins_hash, image.stage)
            ids = (image_id(image.reference) or "",)
            for volume, labels in cache_volumes(prefix).items():
                arch = arch_of(volume, prefix)
                if arch is None:
                    continue
                if is_of_other_image(labels, ids):
                    say(f"cache: {volume} is the cache of another image than {image.reference}: not carried")
                elif is_half_filled(volume):
                    say(f"cache: {volume} is half filled: not carried")
                else:
                    found += _read(volume, image.reference, arch, say)
    return tuple(found)


def _read(volume: str, reference: str, arch: str, say: Callable[[str], None]) -> Iterator[FoundCache]:
    say(f"cache: reading {volume}")
    with project_lock(volume, verb="bundle export", wait_s=_WAIT_S):
        content = read_content(volume, reference)
    if holds_files(content.entries):
        yield FoundCache(image=reference, arch=arch, content=content)


def add_cache(
    found: FoundCache, images: Iterable[BundleImage], writer: BundleWriter, came: Callable[[int], None]
) -> BundleCache:
    """Write the volume's files that no bundle holds yet.

    Raises KitError ``bundle-source-changed`` (exit 5) when a file went or became another one meanwhile.
    """
    volume = found.content.volume

    def sink(path: str, sha256: str, size_bytes: int, chunks: Iterator[bytes]) -> None:
        if not writer.has(sha256):
            writer.add(_told(chunks, came), sha256=sha256, size_bytes=size_bytes, what=f"{volume}: {path}")

    if not all([writer.has(sha256) for sha256 in found.content.sizes]):
        with project_lock(volume, verb="bundle export", wait_s=_WAIT_S):
            copy_files(found.content, found.image, sink=sink)
    for entry in found.content.entries:
        if entry.sha256 is not None and not writer.has(entry.sha256):
            raise _went(volume, entry.path)
    image = next(image for image in images if image.reference == found.image)
    return BundleCache(
        volume=volume,
        image=found.image,
        image_id=image.tree.config,
        arch=found.arch,
        entries=found.content.entries,
    )


def _told(chunks: Iterator[bytes], came: Callable[[int], None]) -> Iterator[bytes]:
    for chunk in chunks:
        came(len(chunk))
        yield chunk


def cache_row(cache: BundleCache, manifest: Manifest) -> dict[str, object]:
    """The cache in ``bundle export --json``."""
    sizes = {one.sha256: one.size_bytes for one in manifest.objects}
    return {
        "volume": cache.volume,
        "image": cache.image,
        "files": sum(entry.sha256 is not None for entry in cache.entries),
        "size_bytes": sum(sizes[sha256] for sha256 in cache.objects),
    }


def export_lines(manifest: Manifest, *, with_caches: bool) -> list[str]:
    """What the export says of caches."""
    if not with_caches:
        return ["  no caches of compiled kernels (--no-caches)"]
    if not manifest.caches:
        return ["  no cache of compiled kernels: no volume of these images here holds one"]
    rows = [cache_row(cache, manifest) for cache in manifest.caches]
    return [
        f"  cache {row['volume']} ({row['files']} files, {size_text(int(str(row['size_bytes'])))})"
        for row in rows
    ]


@dataclass(frozen=True, kw_only=True)
class CacheTaken:
    """What became of a volume, in words."""

    volume: str
    is_filled: bool
    detail: str


def missing_caches(manifest: Manifest) -> tuple[BundleCache, ...]:
    """The caches whose volume is not on this engine, or half filled. One that is empty is found later: to look into
    it takes its image."""
    return tuple(
        cache
        for cache in manifest.caches
        if cache.volume not in cache_volumes(cache.volume) or is_half_filled(cache.volume)
    )


def check_half_filled(caches: Iterable[BundleCache]) -> None:
    """Raises KitError ``cache-in-use`` (exit 3) for a half-filled volume that a container has."""
    for cache in caches:
        if is_half_filled(cache.volume):
            require_free(cache.volume)


def object_bytes(cache: BundleCache, proven: ProvenBundle) -> int:
    """Bytes of the cache's files."""
    files = [entry.sha256 for entry in cache.entries if entry.sha256 is not None]
    return sum(proven.objects.size_bytes(sha256) for sha256 in files)


def take_in_caches(proven: ProvenBundle, *, say: Callable[[str], None]) -> tuple[CacheTaken, ...]:
    """Fill the volumes that are missing, empty or half filled; their images are on the engine and proven by now.

    Raises KitError ``cache-in-use``, ``stack-busy`` (exit 3), ``bundle-damaged`` (exit 5) and what the engine says.
    """
    return tuple(_take_in(cache, proven, say) for cache in proven.bundle.manifest.caches)


def _take_in(cache: BundleCache, proven: ProvenBundle, say: Callable[[str], None]) -> CacheTaken:
    image = next(one for one in proven.bundle.manifest.images if one.reference == cache.image)
    tree = image.tree
    with project_lock(cache.volume, verb="bundle import", wait_s=_WAIT_S):
        kept = _why_kept(cache, tree.tree().ids, proven)
        if kept is not None:
            return CacheTaken(volume=cache.volume, is_filled=False, detail=kept)
        say(f"cache: filling {cache.volume}")
        sizes = {sha256: proven.objects.size_bytes(sha256) for sha256 in cache.objects}
        fill_volume(
            CacheContent(volume=cache.volume, entries=cache.entries, sizes=sizes),
            cache.image,
            labels=volume_labels(config=tree.config, target=tree.target, arch=cache.arch),
            chunks=proven.objects.chunks,
        )
    files = sum(entry.sha256 is not None for entry in cache.entries)
    return CacheTaken(volume=cache.volume, is_filled=True, detail=f"filled with {files} files")


def _why_kept(cache: BundleCache, ids: tuple[str, str], proven: ProvenBundle) -> str | None:
    """Why a volume that is here stays as it is; ``None`` for one that is to be filled."""
    labels = cache_volumes(cache.volume).get(cache.volume)
    if labels is None or is_half_filled(cache.volume):
        return None
    if has_content(cache.volume, cache.image):
        if is_of_other_image(labels, ids):
            return f"left as it is, the cache of another image: docker volume rm {cache.volume}, then import again"
        return "left as it is, it has content"
    if cache.objects & proven.lacking:
        return "left empty: its files lie in the older bundle, which --base names"
    try:
        drop_volume(cache.volume)
    except KitError:
        return "left empty: a container has it (kitctl down its stack, then import again)"
    return None


def _went(volume: str, path: str) -> KitError:
    return KitError(
        "bundle-source-changed",
        f"{volume}: {path} went while the volume was read",
        remedy="a stack that starts writes there: run the export again once it serves, or with --no-caches",
        exit_code=Exit.FETCH,
    )
