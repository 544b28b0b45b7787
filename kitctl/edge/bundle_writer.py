"""Append objects to a bundle's parts, so that an export that was cut off goes on behind the last whole object."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kitctl.bundle.layout import JOURNAL_NAME, PART_FOLDER, part_path
from kitctl.bundle.manifest import BundleFile, BundleObject
from kitctl.edge.files import write_atomic
from kitctl.edge.transfer import disk_error, sync_folder
from kitctl.errors import Exit, KitError

_READ_BYTES = 1024**2


class BundleWriter:
    """The stream of objects, cut into parts of at most ``part_bytes``.

    ``held`` are objects that an older bundle has: they are noted, not written. A journal beside the parts notes each
    object once its bytes are on disk; ``wish`` names what is exported, and only the same wish is gone on with.
    """

    def __init__(self, folder: str, *, part_bytes: int, wish: str, held: Mapping[str, int]) -> None:
        """Raises KitError ``bundle-other-export`` (exit 3), ``disk-full`` (exit 5), ``store-unwritable`` (exit 3)."""
        self._folder, self._part_bytes, self._held = Path(folder), part_bytes, held
        self._journal = self._folder / JOURNAL_NAME
        self.objects: dict[str, BundleObject] = {}
        self.notes: dict[str, Any] = {}
        self._parts: list[BundleFile] = []
        self._handle: int | None = None
        self._digest = hashlib.sha256()
        self._in_part = 0
        self._end = 0
        self.resumed_bytes = 0
        try:
            (self._folder / PART_FOLDER).mkdir(parents=True, exist_ok=True)
            self._resume(wish)
        except OSError as failed:
            raise disk_error(failed, self._folder / PART_FOLDER) from failed

    @property
    def folder(self) -> str:
        """Where the bundle grows."""
        return str(self._folder)

    def has(self, sha256: str) -> bool:
        """Whether the object needs no bytes any more: written, or in the older bundle."""
        if sha256 in self._held and sha256 not in self.objects:
            self.objects[sha256] = BundleObject(sha256=sha256, size_bytes=self._held[sha256])
        return sha256 in self.objects

    def is_written(self, sha256: str) -> bool:
        """Whether this very bundle holds the object."""
        return sha256 in self.objects and self.objects[sha256].offset_bytes is not None

    def add(self, chunks: Iterable[bytes], *, sha256: str, size_bytes: int, what: str) -> None:
        """Write one object. Raises KitError ``bundle-source-changed`` (exit 5) when the bytes are others."""
        start, found, came = self._end, hashlib.sha256(), 0
        try:
            for chunk in chunks:
                found.update(chunk)
                came += len(chunk)
                self._write(chunk)
            if self._handle is not None:
                os.fdatasync(self._handle)
        except OSError as failed:
            raise disk_error(failed, self._folder / PART_FOLDER) from failed
        if (found.hexdigest(), came) != (sha256, size_bytes):
            raise _changed(what, sha256, found.hexdigest())
        self.objects[sha256] = BundleObject(sha256=sha256, size_bytes=size_bytes, offset_bytes=start)
        self._note({"object": sha256, "size": size_bytes, "offset": start})

    def note(self, key: str, value: Any) -> None:
        """Keep a fact that a later run of the same export needs."""
        self.notes[key] = value
        self._note({"note": key, "value": value})

    def finish(self) -> tuple[BundleFile, ...]:
        """Close the last part; all parts in order."""
        if self._handle is not None:
            self._close_part()
        sync_folder(self._folder / PART_FOLDER)
        return tuple(self._parts)

    def in_order(self) -> tuple[BundleObject, ...]:
        """All objects, those of the stream first and as they lie there."""
        found = self.objects.values()
        return tuple(
            sorted(found, key=lambda one: (one.offset_bytes is None, one.offset_bytes or 0, one.size_bytes))
        )

    def remove_journal(self) -> None:
        """The bundle is whole: nothing is to be gone on with."""
        self._journal.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the part that is open; what is in it stays for the next run."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _write(self, chunk: bytes) -> None:
        rest = memoryview(chunk)
        while rest:
            if self._handle is None:
                self._open_part()
            piece = rest[: self._part_bytes - self._in_part]
            written = os.write(self._handle or 0, piece)
            self._digest.update(piece[:written])
            self._in_part += written
            self._end += written
            rest = rest[written:]
            if self._in_part == self._part_bytes:
                self._close_part()

    def _open_part(self) -> None:
        path = self._folder / part_path(len(self._parts))
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        self._handle = os.open(path, flags, 0o644)
        self._digest, self._in_part = hashlib.sha256(), 0

    def _close_part(self) -> None:
        handle = self._handle or 0
        os.fdatasync(handle)
        os.close(handle)
        self._handle = None
        path = part_path(len(self._parts))
        self._parts.append(BundleFile(path=path, size_bytes=self._in_part, sha256=self._digest.hexdigest()))
        self._note({"part": path, "size": self._in_part, "sha256": self._digest.hexdigest()})

    def _note(self, row: Mapping[str, Any]) -> None:
        try:
            with self._journal.open("a", encoding="ascii") as out:
                out.write(json.dumps(row) + "\n")
                out.flush()
                os.fsync(out.fileno())
        except OSError as failed:
            raise disk_error(failed, self._journal) from failed

    def _resume(self, wish: str) -> None:
        """Take up what an earlier run left: whole objects stay, the bytes behind the last of them go."""
        head = {"wish": wish, "part_bytes": self._part_bytes}
        rows = _rows(self._journal)
        if not rows:
            self._clear_parts(0)
            self._note(head)
            return
        if rows[0] != head:
            raise _other(self._folder)
        write_atomic(str(self._journal), "".join(json.dumps(row) + "\n" for row in rows))
        for row in rows[1:]:
            if "object" in row:
                one = BundleObject(sha256=row["object"], size_bytes=row["size"], offset_bytes=row["offset"])
                self.objects[one.sha256] = one
                self._end = row["offset"] + row["size"]
            if "note" in row:
                self.notes[row["note"]] = row["value"]
        whole = [row for row in rows if "part" in row]
        self._parts = [
            BundleFile(path=row["part"], size_bytes=row["size"], sha256=row["sha256"])
            for row in {row["part"]: row for row in whole}.values()
            if int(row["part"][-10:-5]) * self._part_bytes <= self._end
        ]
        self.resumed_bytes = self._end
        self._reopen()

    def _reopen(self) -> None:
        """Cut the stream at its last whole object and read the part that is not full for its hash."""
        kept = len(self._parts)
        self._in_part = self._end - kept * self._part_bytes
        self._clear_parts(kept + (1 if self._in_part else 0))
        if not self._in_part:
            return
        path = self._folder / part_path(kept)
        self._handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        os.ftruncate(self._handle, self._in_part)
        while chunk := os.read(self._handle, _READ_BYTES):
            self._digest.update(chunk)

    def _clear_parts(self, kept: int) -> None:
        wanted = {Path(part_path(number)).name for number in range(kept)}
        for path in (self._folder / PART_FOLDER).glob("*.part"):
            if path.name not in wanted:
                path.unlink()


def _rows(journal: Path) -> list[dict[str, Any]]:
    """The journal's lines; a last one that was cut off is dropped."""
    if not journal.is_file():
        return []
    rows = []
    for line in journal.read_text(encoding="ascii", errors="replace").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows


def _other(folder: Path) -> KitError:
    return KitError(
        "bundle-other-export",
        f"{folder} holds an unfinished export of something else",
        remedy=f"finish that one, name another folder with -o, or remove it: rm -r {folder}",
        exit_code=Exit.REFUSED,
    )


def _changed(what: str, wanted: str, found: str) -> KitError:
    return KitError(
        "bundle-source-changed",
        f"{what} changed while it was read",
        evidence=(f"wanted {wanted}", f"read {found}"),
        remedy="kitctl verify --deep names what is damaged; then run the export again: it goes on where it stood",
        exit_code=Exit.FETCH,
    )
