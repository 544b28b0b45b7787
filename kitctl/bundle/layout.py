"""Where in the parts do an object's bytes lie?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kitctl.bundle.manifest import BundleFile, BundleObject, Manifest

PART_FOLDER = "parts"
JOURNAL_NAME = "export.journal"
DEFAULT_PART_BYTES = 4_000_000_000
"""Fits a FAT file system, whose files end below 4 GiB."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """``size_bytes`` from ``start_bytes`` on in the part at ``path``."""

    path: str
    start_bytes: int
    size_bytes: int


def part_path(number: int) -> str:
    """The path of part ``number`` (from 0) in a bundle."""
    return f"{PART_FOLDER}/{number + 1:05d}.part"


def spans_of(parts: Sequence[BundleFile], offset_bytes: int, size_bytes: int) -> Iterator[Span]:
    """The pieces of a stretch of the stream, in order."""
    begin = 0
    for part in parts:
        start = max(offset_bytes - begin, 0)
        end = min(offset_bytes + size_bytes - begin, part.size_bytes)
        if start < end:
            yield Span(path=part.path, start_bytes=start, size_bytes=end - start)
        begin += part.size_bytes


def users_of(manifest: Manifest) -> dict[str, str]:
    """What each object is, in words: ``org/model: config.json``, ``image kitctl/sglang:...``."""
    words: dict[str, str] = {one.sha256: f"own {one.path}" for one in manifest.config}
    for image in manifest.images:
        words |= {blob.removeprefix("sha256:"): f"image {image.reference}" for blob in image.blobs}
        words |= {image.bill: f"bill of materials of {image.reference}"} if image.bill else {}
    for model in manifest.models:
        words |= {digest: f"{model.repo}: {path}" for path, digest in model.objects.items()}
    for cache in manifest.caches:
        words |= {e.sha256: f"{cache.volume}: {e.path}" for e in cache.entries if e.sha256 is not None}
    return words


def objects_in(manifest: Manifest, part: BundleFile) -> tuple[BundleObject, ...]:
    """The objects that lie in ``part``, wholly or not."""
    found = []
    for one in manifest.objects:
        if one.offset_bytes is None:
            continue
        spans = spans_of(manifest.parts, one.offset_bytes, one.size_bytes)
        found += [one] if any(span.path == part.path for span in spans) else []
    return tuple(found)
