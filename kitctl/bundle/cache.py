"""Caches of compiled kernels in a bundle: what may lie in one, and what names its volume and its image.

A cache volume belongs to one image and one set of GPU architectures. Its name holds the image's pins, stage and the
architectures (``plan/planner.py``); the bundle adds the digest of the image's configuration, which is the same in
either kind of image store.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from posixpath import dirname, join, normpath
from typing import Annotated

import msgspec

from kitctl.kit.models_lock import Sha256, is_safe_path
from kitctl.plan.planner import CACHE_ROOT
from kitctl.render.compose import LABEL

MODE_MASK = 0o777
LABEL_IMAGE = f"{LABEL}.cache.image"
LABEL_MANIFEST = f"{LABEL}.cache.manifest"
LABEL_ARCH = f"{LABEL}.cache.arch"
_ARCH = re.compile(r"cpu|[0-9]+[a-z]?(-[0-9]+[a-z]?)*")


class CacheEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A file (``sha256``), a symbolic link (``link``) or, with neither, a folder, by its path below the volume.

    ``mtime_s``: whole seconds since 1970, as an engine's archives carry them. Owners are not kept: all belongs to the
    user that the image's containers run as.
    """

    path: str
    mode: Annotated[int, msgspec.Meta(ge=0, le=MODE_MASK)]
    mtime_s: Annotated[int, msgspec.Meta(ge=0, le=2**33)]
    sha256: Sha256 | None = None
    link: str | None = None


class BundleCache(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cache volume. ``image_id``: digest of the configuration of the image whose kernels these are.

    ``arch`` is the GPU architectures as the volume's name has them (``120``, ``90-120``, ``cpu``).
    """

    volume: str
    image: str
    image_id: Annotated[str, msgspec.Meta(pattern="^sha256:[0-9a-f]{64}$")]
    arch: str
    entries: tuple[CacheEntry, ...]

    @property
    def objects(self) -> frozenset[str]:
        """The files' objects."""
        return frozenset(entry.sha256 for entry in self.entries if entry.sha256 is not None)


def arch_of(volume: str, prefix: str) -> str | None:
    """The architectures in a cache volume's name, ``None`` for a name that is no cache volume's of ``prefix``."""
    arch = volume.removeprefix(prefix)
    return arch if volume.startswith(prefix) and _ARCH.fullmatch(arch) else None


def holds_files(entries: Sequence[CacheEntry]) -> bool:
    """Whether there is more than folders."""
    return any(entry.sha256 is not None or entry.link is not None for entry in entries)


def entry_problems(entries: Sequence[CacheEntry]) -> Iterator[str]:
    """What may not be in a cache: paths and links that lead out of it, and what lies in anything but a folder.

    With every parent a folder named before, a link that only begins with ``..`` leads where its text says.
    """
    seen: set[str] = set()
    folders = {""}
    for entry in entries:
        if not is_safe_path(entry.path):
            yield f"{entry.path!r} is not a plain path below the volume"
        elif entry.path in seen:
            yield f"{entry.path!r} is named twice"
        elif dirname(entry.path) not in folders:
            yield f"{entry.path!r} does not lie in a folder that is named before it"
        elif entry.link is not None and entry.sha256 is not None:
            yield f"{entry.path!r} is a link and a file"
        elif entry.link is not None and not stays_inside(entry.path, entry.link):
            yield f"{entry.path!r} links to {entry.link!r}, outside of the volume"
        seen.add(entry.path)
        if entry.link is None and entry.sha256 is None:
            folders.add(entry.path)


def stays_inside(path: str, target: str) -> bool:
    """Whether a link at ``path`` (below the volume, in real folders) can only lead to something in the volume."""
    if not target or not target.isprintable() or "\\" in target or len(target.encode()) > 4000:
        return False
    if target.startswith("/"):
        rest = target.removeprefix(f"{CACHE_ROOT}/")
        return rest != target and is_safe_path(rest)
    parts = target.split("/")
    down = [number for number, part in enumerate(parts) if part != ".."]
    if down and ".." in parts[down[0] :]:
        return False
    found = normpath(join(dirname(path) or ".", target))
    return found != ".." and not found.startswith("../")


def volume_labels(*, config: str, target: str, arch: str) -> dict[str, str]:
    """The labels of a volume that an import made: whose cache it is, by the image's two digests."""
    return {LABEL_IMAGE: config, LABEL_MANIFEST: target, LABEL_ARCH: arch}


def is_of_other_image(labels: Mapping[str, str], ids: Sequence[str]) -> bool:
    """Whether a volume says that it is the cache of an image that none of ``ids`` names (without labels: no)."""
    named = {labels[key] for key in (LABEL_IMAGE, LABEL_MANIFEST) if key in labels}
    return bool(named) and named.isdisjoint(ids)
