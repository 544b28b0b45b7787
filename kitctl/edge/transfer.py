"""Bring one file into the store: hashed while it comes, continued where it stood, accepted only when proven.

The bytes gather in ``HASH.kitctl-part``. A transfer that was killed is continued from the part's end, after the
part was hashed again; every 64 MB reach the disk. A whole file with the right hash is renamed into place;
nothing else ever is.
"""

from __future__ import annotations

import errno
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kitctl.edge.streams import Source, StreamBrokenError, new_session, open_stream
from kitctl.errors import Exit, KitError
from kitctl.kit.models_lock import LockedFile
from kitctl.store.sizes import size_text

SYNC_EVERY_BYTES = 64 * 1024**2
MIN_BYTES_PER_S = 4096.0
READ_BYTES = 1024**2


class StoppedError(Exception):
    """Another stream failed in a way that ends them all, or the user interrupted."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """``tries`` in a row without a new byte end a file; ``stall_s`` without one end a try."""

    tries: int
    stall_s: float
    longest_wait_s: float = 300.0

    def wait_s(self, failures: int, named_s: float | None) -> float:
        """How long to wait after the nth failure without a byte in a row: what the server names, else 1, 2, 4 ...
        30 s; hardly at all (n = 0) when bytes had come."""
        own_s = min(30.0, 2.0 ** (failures - 1)) if failures else 0.1
        return min(self.longest_wait_s, own_s if named_s is None else named_s)


@dataclass(frozen=True, kw_only=True)
class Reporter:
    """Where a transfer tells of itself: bytes that came, bytes it had, lines worth reading; and when to stop."""

    came: Callable[[int], None]
    had: Callable[[int], None]
    say: Callable[[str], None]
    stop: threading.Event


def new_hash(file: LockedFile) -> Any:
    """A hash of the kind that ``file`` is locked with, fed with what git puts before the bytes."""
    if file.sha256:
        return hashlib.sha256()
    digest = hashlib.sha1(usedforsecurity=False)
    digest.update(b"blob %d\0" % file.size_bytes)
    return digest


def fetch_file(source: Source, part: Path, blob: Path, *, patience: Patience, reporter: Reporter) -> None:
    """Fetch ``source`` into ``part`` and, proven, rename it to ``blob``.

    Raises KitError ``hash-mismatch``, ``fetch-failed``, ``disk-full`` or what the hub refuses (exit 5);
    StoppedError when ``reporter.stop`` is set. The part is kept but after a wrong hash.
    """
    resumed = _fill_and_judge(source, part, blob, patience=patience, reporter=reporter)
    if resumed is None:
        return
    if resumed:
        reporter.say(f"{source.file.path}: what an earlier pull left is damaged, fetching the file anew")
        if _fill_and_judge(source, part, blob, patience=patience, reporter=reporter) is None:
            return
    raise KitError(
        "hash-mismatch",
        f"the hub sent other bytes for {source.file.path} of {source.entry.repo} than models.lock names",
        evidence=(f"models.lock: {source.file.blob_name}", f"url: {source.url}"),
        remedy=f"run it again; if it stays so: kitctl models lock {source.entry.repo}",
        exit_code=Exit.FETCH,
    )


def _fill_and_judge(
    source: Source, part: Path, blob: Path, *, patience: Patience, reporter: Reporter
) -> bool | None:
    """``None``: in place and proven. Else the hash is wrong and the part gone; whether it had been resumed."""
    handle = _open_part(part)
    try:
        part_file = _Part(handle, source.file, reporter)
        start = part_file.hash_again()
        _fill(part_file, source, patience)
        os.fsync(handle)
    except OSError as failed:
        raise disk_error(failed, part) from failed
    finally:
        os.close(handle)
    if part_file.digest.hexdigest() == source.file.blob_name:
        put_in_place(part, blob)
        return None
    reporter.had(-source.file.size_bytes)
    part.unlink()
    return start > 0


def _open_part(part: Path) -> int:
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        return os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as failed:
        raise disk_error(failed, part) from failed


class _Part:
    """An open part: how much of the file it has, and the hash of that."""

    def __init__(self, handle: int, file: LockedFile, reporter: Reporter) -> None:
        self._handle, self._file, self.reporter = handle, file, reporter
        self.digest = new_hash(file)
        self.have_bytes = 0

    @property
    def is_whole(self) -> bool:
        """Whether it has as many bytes as the file."""
        return self.have_bytes >= self._file.size_bytes

    def hash_again(self) -> int:
        """Hash what an earlier transfer left; how many bytes that were. What is longer than the file is dropped."""
        if os.fstat(self._handle).st_size > self._file.size_bytes:
            os.ftruncate(self._handle, 0)
        while chunk := os.read(self._handle, READ_BYTES):
            if self.reporter.stop.is_set():
                raise StoppedError
            self.digest.update(chunk)
            self.have_bytes += len(chunk)
        self.reporter.had(self.have_bytes)
        return self.have_bytes

    def append(self, chunk: bytes) -> None:
        """Write one chunk at the end; a write that fails leaves what was hashed and no more."""
        if self.reporter.stop.is_set():
            raise StoppedError
        chunk = chunk[: self._file.size_bytes - self.have_bytes]
        try:
            rest = memoryview(chunk)
            while rest:
                rest = rest[os.write(self._handle, rest) :]
        except OSError:
            os.ftruncate(self._handle, self.have_bytes)
            raise
        self.digest.update(chunk)
        before, self.have_bytes = self.have_bytes, self.have_bytes + len(chunk)
        if self.have_bytes // SYNC_EVERY_BYTES > before // SYNC_EVERY_BYTES:
            os.fdatasync(self._handle)
        self.reporter.came(len(chunk))


def _fill(part: _Part, source: Source, patience: Patience) -> None:
    """Append bytes until the file is whole, going on after every break that leaves hope."""
    failures, use_xet = 0, True
    with new_session() as session:
        while not part.is_whole:
            before = part.have_bytes
            try:
                stream = open_stream(
                    session, source, start=part.have_bytes, stall_s=patience.stall_s, use_xet=use_xet
                )
                for chunk in _watched(stream, patience.stall_s):
                    part.append(chunk)
                if not part.is_whole:
                    raise StreamBrokenError("the connection was cut")
            except StreamBrokenError as broken:
                failures = 0 if part.have_bytes > before else failures + 1
                if failures >= patience.tries:
                    raise _failed(source, part.have_bytes, tries=failures, reason=str(broken)) from broken
                use_xet = False
                wait_s = patience.wait_s(failures, broken.wait_s)
                part.reporter.say(
                    f"{source.file.path}: {broken} at {size_text(part.have_bytes)}, going on in {wait_s:g} s"
                )
                if part.reporter.stop.wait(wait_s):
                    raise StoppedError from broken


def _watched(stream: Iterator[bytes], stall_s: float) -> Iterator[bytes]:
    """The stream's chunks; a stream that merely trickles for ``stall_s`` counts as stalled."""
    since, came = time.monotonic(), 0
    for chunk in stream:
        yield chunk
        came += len(chunk)
        passed = time.monotonic() - since
        if passed >= stall_s:
            if came < MIN_BYTES_PER_S * passed:
                raise StreamBrokenError(f"only {came} bytes came in {passed:.0f} s")
            since, came = time.monotonic(), 0


def _failed(source: Source, have_bytes: int, *, tries: int, reason: str) -> KitError:
    file = source.file
    return KitError(
        "fetch-failed",
        f"{file.path} of {source.entry.repo} stopped at {size_text(have_bytes)} of {size_text(file.size_bytes)}",
        evidence=(f"{tries} tries in a row brought no byte; the last: {reason}", f"url: {source.url}"),
        remedy=f"see that the hub can be reached, then kitctl models pull {source.entry.repo}: it goes on there",
        exit_code=Exit.FETCH,
    )


def put_in_place(beside: Path, target: Path) -> None:
    """Rename a finished file into place, so that it survives a power cut."""
    try:
        beside.rename(target)
        sync_folder(target.parent)
    except OSError as failed:
        raise disk_error(failed, target) from failed


def sync_folder(folder: Path) -> None:
    """Write a folder's entries to disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def disk_error(failed: OSError, path: Path) -> KitError:
    """What a failed write means to the user: a full disk (exit 5), or a place that may not be written (exit 3)."""
    if failed.errno in (errno.ENOSPC, errno.EDQUOT):
        return KitError(
            "disk-full",
            f"the disk of {path.parent} is full",
            evidence=(str(failed),),
            remedy="free space ('kitctl models du' lists the largest), then pull again: it goes on where it stood",
            exit_code=Exit.FETCH,
        )
    if failed.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return unwritable(path.parent, str(failed))
    if failed.errno in (errno.EISDIR, errno.ENOTDIR):
        return KitError(
            "store-blocked",
            f"{path} cannot be written: a folder stands where a file belongs, or a file where a folder does",
            evidence=(str(failed),),
            remedy=f"see what {path} is, and move it out of the store",
            exit_code=Exit.REFUSED,
        )
    return KitError(
        "disk-failed",
        f"{path} cannot be written: {failed.strerror}",
        evidence=(str(failed),),
        remedy=f"look at the disk of {path.parent} (dmesg), or name another store with --store",
        exit_code=Exit.FETCH,
    )


def unwritable(folder: Path, evidence: str) -> KitError:
    """The user may not write here: says who may."""
    owner = next((p.stat().st_uid for p in (folder, *folder.parents) if p.exists()), None)
    return KitError(
        "store-unwritable",
        f"{folder} cannot be written by user {os.geteuid()}",
        evidence=(evidence, f"it belongs to user {owner}"),
        remedy=f"sudo chown -R {os.geteuid()} {folder}, or name a store of your own with --store",
        exit_code=Exit.REFUSED,
    )
