"""Read a bundle: prove every byte of it, then give its objects out, each held against its hash once more."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kitctl.bundle.layout import JOURNAL_NAME, PART_FOLDER, Span, objects_in, spans_of, users_of
from kitctl.bundle.manifest import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    SUMS_NAME,
    BundleFile,
    BundleObject,
    Manifest,
    digest_of,
    read_manifest,
    sums_text,
)
from kitctl.errors import Exit, KitError

READ_BYTES = 1024**2


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A bundle's folder and its manifest, whose sha256 is ``digest``."""

    folder: str
    manifest: Manifest
    digest: str

    def chunks(self, one: BundleObject) -> Iterator[bytes]:
        """An object's bytes. Raises KitError ``bundle-damaged`` (exit 5) before the end when they are others."""
        found = hashlib.sha256()
        last = b""
        for span in spans_of(self.manifest.parts, one.offset_bytes or 0, one.size_bytes):
            for chunk in _read_span(self.folder, span):
                yield last
                found.update(chunk)
                last = chunk
        if found.hexdigest() != one.sha256:
            what = users_of(self.manifest).get(one.sha256, one.sha256)
            raise damaged(self.folder, f"{what} is not what it was a moment ago", ())
        yield last


def is_bundle(folder: str) -> bool:
    """Whether the folder holds a bundle that was finished."""
    return _is_there(Path(folder) / MANIFEST_NAME)


def _is_there(path: Path) -> bool:
    """Whether something has this name, a link that leads nowhere too; false for what may not be looked at."""
    try:
        path.lstat()
    except OSError:
        return False
    return True


def open_bundle(folder: str, *, digest: str | None = None) -> Bundle:
    """The bundle in ``folder``, its manifest proven against SHA256SUMS and ``digest`` (the manifest's sha256).

    Raises KitError ``no-bundle`` (exit 2), ``bundle-unfinished``, ``bundle-damaged``, ``bundle-unsafe``,
    ``bundle-bad-manifest``, ``bundle-other`` (exit 5).
    """
    root = Path(folder)
    if not is_bundle(folder):
        raise _no_manifest(root)
    text = _read_small(root, MANIFEST_NAME)
    found = digest_of(text)
    sums = _read_small(root, SUMS_NAME).decode("utf-8", "replace")
    if not sums.startswith(f"{found}  {MANIFEST_NAME}\n"):
        seen = (f"its sha256 is {found}", f"{SUMS_NAME}: {sums.partition(chr(10))[0][:100]}")
        raise damaged(folder, f"{MANIFEST_NAME} is not the one that {SUMS_NAME} names", seen)
    if digest is not None and digest.removeprefix("sha256:") != found:
        raise _other(folder, digest, found)
    manifest = read_manifest(text)
    if sums != sums_text(manifest, found):
        raise damaged(folder, f"{SUMS_NAME} does not name the files that {MANIFEST_NAME} names", ())
    return Bundle(folder=folder, manifest=manifest, digest=found)


def prove_bundle(bundle: Bundle, *, came: Callable[[int], None]) -> None:
    """Read every byte. ``came`` is told how many.

    Raises KitError ``bundle-missing-file``, ``bundle-unsafe`` or ``bundle-damaged`` (exit 5) with what and where.
    """
    for file in (*bundle.manifest.files, *bundle.manifest.parts):
        _look_at(bundle, file)
    for file in bundle.manifest.files:
        digest = hashlib.sha256()
        for chunk in _read_span(
            bundle.folder, Span(path=file.path, start_bytes=0, size_bytes=file.size_bytes)
        ):
            digest.update(chunk)
            came(len(chunk))
        if digest.hexdigest() != file.sha256:
            raise damaged(bundle.folder, f"{file.path} holds other bytes than {MANIFEST_NAME} names", ())
    _prove_parts(bundle, came=came)


def _prove_parts(bundle: Bundle, *, came: Callable[[int], None]) -> None:
    """One pass over the stream, for the hashes of parts and of objects."""
    objects = _ObjectHashes(bundle)
    for part in bundle.manifest.parts:
        digest = hashlib.sha256()
        for chunk in _read_span(
            bundle.folder, Span(path=part.path, start_bytes=0, size_bytes=part.size_bytes)
        ):
            digest.update(chunk)
            objects.feed(chunk)
            came(len(chunk))
        if digest.hexdigest() != part.sha256:
            raise _damaged_part(bundle, part)
    if objects.wrong:
        cause = f"{objects.wrong[0]} is not the object that {MANIFEST_NAME} names"
        raise damaged(bundle.folder, cause, ())


class _ObjectHashes:
    """The hashes of the objects of a stream that comes in chunks. ``wrong``: those that are not as named."""

    def __init__(self, bundle: Bundle) -> None:
        self._left = [one for one in reversed(bundle.manifest.objects) if one.offset_bytes is not None]
        self._digest, self._need = hashlib.sha256(), self._left[-1].size_bytes if self._left else 0
        self.wrong: list[str] = []
        self._close_ended()

    def feed(self, chunk: bytes) -> None:
        """The next bytes of the stream."""
        rest = memoryview(chunk)
        while rest and self._left:
            piece = rest[: self._need]
            self._digest.update(piece)
            self._need -= len(piece)
            rest = rest[len(piece) :]
            self._close_ended()

    def _close_ended(self) -> None:
        """Judge the object that is over, and empty ones behind it."""
        while self._left and not self._need:
            ended = self._left.pop()
            if self._digest.hexdigest() != ended.sha256:
                self.wrong.append(ended.sha256)
            self._digest = hashlib.sha256()
            self._need = self._left[-1].size_bytes if self._left else 0


def _is_whole(bundle: Bundle, one: BundleObject) -> bool:
    """Whether an object's bytes are as named."""
    found = hashlib.sha256()
    for span in spans_of(bundle.manifest.parts, one.offset_bytes or 0, one.size_bytes):
        for chunk in _read_span(bundle.folder, span):
            found.update(chunk)
    return found.hexdigest() == one.sha256


def _damaged_part(bundle: Bundle, part: BundleFile) -> KitError:
    """The error for a part with other bytes: which objects in it are hit."""
    words = users_of(bundle.manifest)
    hit = [one for one in objects_in(bundle.manifest, part) if not _is_whole(bundle, one)]
    seen = [
        f"{words.get(one.sha256, one.sha256)}: bytes {one.offset_bytes} to {(one.offset_bytes or 0) + one.size_bytes}"
        " of the stream"
        for one in hit[:5]
    ]
    return damaged(bundle.folder, f"{part.path} holds other bytes than {MANIFEST_NAME} names", tuple(seen))


def _look_at(bundle: Bundle, file: BundleFile) -> None:
    """Refuse a file that is not there, no plain file, or of another size, before anything is read."""
    path = Path(bundle.folder) / file.path
    for folder in (path.parent, *path.parent.parents):
        if folder == Path(bundle.folder):
            break
        if folder.is_symlink():
            raise unsafe(bundle.folder, f"{folder.name} is a link")
    try:
        seen = path.lstat()
    except OSError as gone:
        raise _missing(bundle, file) from gone
    if not stat.S_ISREG(seen.st_mode):
        raise unsafe(bundle.folder, f"{file.path} is a link or a device, not a file")
    if seen.st_size != file.size_bytes:
        how = "cut short" if seen.st_size < file.size_bytes else "too long"
        sizes = (f"{seen.st_size} bytes there, {file.size_bytes} in {MANIFEST_NAME}",)
        raise damaged(bundle.folder, f"{file.path} is {how}", sizes)


@contextmanager
def _open(folder: str, path: str) -> Iterator[int]:
    """A file of the bundle, never through a link; a pipe in its place is not waited for."""
    try:
        handle = os.open(Path(folder) / path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as refused:
        raise unsafe(folder, f"{path} cannot be opened as a plain file: {refused.strerror}") from refused
    try:
        yield handle
    finally:
        os.close(handle)


def _read_span(folder: str, span: Span) -> Iterator[bytes]:
    """The bytes of a piece of a part. Raises KitError ``bundle-damaged`` (exit 5) where the file ends early."""
    left = span.size_bytes
    with _open(folder, span.path) as handle:
        os.lseek(handle, span.start_bytes, os.SEEK_SET)
        while left:
            try:
                chunk = os.read(handle, min(left, READ_BYTES))
            except OSError as failed:
                where = f"byte {span.start_bytes + span.size_bytes - left}"
                raise damaged(folder, f"{span.path} cannot be read at {where}", (str(failed),)) from failed
            if not chunk:
                raise damaged(folder, f"{span.path} is cut short", ())
            left -= len(chunk)
            yield chunk


def _read_small(root: Path, name: str) -> bytes:
    path = root / name
    if not _is_there(path):
        raise damaged(str(root), f"{name} is missing", ())
    with _open(str(root), name) as handle:
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > MAX_MANIFEST_BYTES:
            raise unsafe(str(root), f"{name} is no plain file of a sensible size")
        with open(handle, "rb", closefd=False) as file:
            return file.read(MAX_MANIFEST_BYTES)


def _no_manifest(root: Path) -> KitError:
    if _is_there(root / JOURNAL_NAME) or _is_there(root / PART_FOLDER):
        return KitError(
            "bundle-unfinished",
            f"{root} holds an export that did not end: it has no {MANIFEST_NAME}",
            remedy="run the same kitctl bundle export again where it was made: it goes on where it stood",
            exit_code=Exit.FETCH,
        )
    return KitError(
        "no-bundle",
        f"{root} is no bundle: it has no {MANIFEST_NAME}",
        remedy="name the folder that kitctl bundle export wrote",
        exit_code=Exit.USAGE,
    )


def damaged(folder: str, cause: str, evidence: tuple[str, ...]) -> KitError:
    """The error for a bundle that is not as it was made."""
    return KitError(
        "bundle-damaged",
        f"the bundle in {folder} is damaged: {cause}",
        evidence=evidence,
        remedy="copy the named file again from where the bundle was made; nothing was taken from this one",
        exit_code=Exit.FETCH,
    )


def unsafe(folder: str, cause: str) -> KitError:
    """The error for a bundle with something in it that is no plain file."""
    return KitError(
        "bundle-unsafe",
        f"the bundle in {folder} is not safe to read: {cause}",
        remedy="copy the bundle again as plain files (cp -rL); a bundle never holds links",
        exit_code=Exit.FETCH,
    )


def _missing(bundle: Bundle, file: BundleFile) -> KitError:
    return KitError(
        "bundle-missing-file",
        f"the bundle in {bundle.folder} lacks {file.path} ({file.size_bytes} bytes)",
        remedy="copy that file too; SHA256SUMS lists them all",
        exit_code=Exit.FETCH,
    )


def _other(folder: str, wanted: str, found: str) -> KitError:
    return KitError(
        "bundle-other",
        f"the bundle in {folder} is not the one that --digest names",
        evidence=(f"wanted {wanted}", f"found {found}"),
        remedy="take the digest from the export's last lines, or fetch the right bundle",
        exit_code=Exit.FETCH,
    )


class Objects:
    """The objects of a bundle and of the older bundles that it rests on."""

    def __init__(self, bundle: Bundle, bases: tuple[Bundle, ...]) -> None:
        self._places: dict[str, tuple[Bundle, BundleObject]] = {}
        for one in (bundle, *bases):
            for held in one.manifest.objects:
                if held.offset_bytes is not None:
                    self._places.setdefault(held.sha256, (one, held))

    def has(self, sha256: str) -> bool:
        """Whether one of the bundles holds the object."""
        return sha256 in self._places

    def is_in(self, bundle: Bundle, sha256: str) -> bool:
        """Whether the object would be read from this very bundle."""
        return self._places[sha256][0] is bundle

    def size_bytes(self, sha256: str) -> int:
        """The object's size."""
        return self._places[sha256][1].size_bytes

    def chunks(self, sha256: str) -> Iterator[bytes]:
        """The object's bytes. Raises KitError ``bundle-damaged`` (exit 5) before their end when they are others."""
        bundle, one = self._places[sha256]
        return bundle.chunks(one)

    def prove(self, wanted: set[str], *, came: Callable[[int], None]) -> None:
        """Read objects through. Raises KitError ``bundle-damaged`` (exit 5)."""
        for sha256 in sorted(wanted):
            for chunk in self.chunks(sha256):
                came(len(chunk))
