"""Prove files by their hash on all cores, and remember what was proven until a file changes.

A file's proof is keyed by device, inode, size, modification and change time in nanoseconds: whoever writes,
replaces, truncates or relinks a file changes one of them. Only the disk itself can lie; ``fresh`` reads again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kitctl.edge.environment import cache_dir
from kitctl.edge.files import write_atomic
from kitctl.edge.transfer import StoppedError, new_hash
from kitctl.errors import KitError
from kitctl.kit.models_lock import LockedFile
from kitctl.store.verdict import Fault, FileVerdict

_PAGE = bytes(4096)
_HOLE_BYTES = 64 * 1024
_HASH_BYTES = 1024**2
"""A step holds the interpreter's lock for about 2 microseconds and hashes for 500: 100 cores do not wait for it. The
cost of a byte is the same from 128 KB to 1 MB (0.54 core-seconds a GiB on an EPYC whose bare hash takes 0.51)."""
_AHEAD_BYTES = 16 * 1024**2
_LONGEST_LINES = 50_000


@dataclass(frozen=True, kw_only=True)
class Proof:
    """One file's hash as it was when its stat key was taken."""

    key: str
    digest: str


def stat_key(path: Path) -> str:
    """What changes when a file does. Raises OSError."""
    seen = path.stat()
    return f"{seen.st_dev:x} {seen.st_ino:x} {seen.st_size:x} {seen.st_mtime_ns:x} {seen.st_ctime_ns:x}"


class Attestations:
    """The remembered proofs of this machine, in one text file under the cache folder; a line a proof."""

    def __init__(self, path: str | None = None) -> None:
        self._path = Path(path or f"{cache_dir()}/attestations.txt")
        self._known = _read_known(self._path)
        self._lock = threading.Lock()

    def is_proven(self, file: LockedFile, path: Path) -> bool:
        """Whether ``path`` was once hashed to ``file``'s hash and has not changed since."""
        try:
            return self._known.get(stat_key(path)) == file.blob_name
        except OSError:
            return False

    def remember(self, proof: Proof) -> None:
        """Keep a proof. A cache that cannot be written costs time later, nothing else."""
        with self._lock:
            self._known[proof.key] = proof.digest
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("a", encoding="ascii") as out:
                    out.write(f"{proof.key} {proof.digest}\n")
            except OSError:
                return


def _read_known(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return {}
    if len(lines) > _LONGEST_LINES:
        lines = lines[-_LONGEST_LINES // 2 :]
        with suppress(KitError):
            write_atomic(str(path), "".join(f"{line}\n" for line in lines))
    pairs = (line.rsplit(" ", 1) for line in lines if line.count(" ") == 5)
    return {key: digest for key, digest in pairs}


def deep_verify(
    files: Sequence[tuple[LockedFile, Path]],
    *,
    attestations: Attestations,
    came: Callable[[int], None],
    stop: threading.Event,
    fresh: bool = False,
) -> tuple[FileVerdict, ...]:
    """The files whose bytes are not those of the lock, by hash; one thread a core, largest files first.

    ``fresh`` reads files again that were proven before. ``came`` is told how many bytes are done.
    """
    todo = []
    for file, path in files:
        if not fresh and attestations.is_proven(file, path):
            came(file.size_bytes)
        else:
            todo.append((file, path))
    todo.sort(key=lambda pair: -pair[0].size_bytes)
    prover = _Prover(attestations=attestations, came=came, stop=stop)
    found: list[FileVerdict] = []
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        jobs = [pool.submit(prover.prove, file, path) for file, path in todo]
        try:
            for job in as_completed(jobs):
                verdict = job.result()
                found += [verdict] if verdict else []
        except BaseException:
            stop.set()
            raise
    return tuple(sorted(found, key=lambda verdict: verdict.path))


@dataclass(frozen=True, kw_only=True)
class _Prover:
    """What the threads of one verification share."""

    attestations: Attestations
    came: Callable[[int], None]
    stop: threading.Event

    def prove(self, file: LockedFile, path: Path) -> FileVerdict | None:
        """``None`` when the bytes are the lock's, which is remembered."""
        try:
            key = stat_key(path)
            digest = hash_path(file, path, came=self.came, stop=self.stop)
            if digest != file.blob_name:
                return _other_bytes(file, path, digest)
            if stat_key(path) == key:
                self.attestations.remember(Proof(key=key, digest=digest))
            return None
        except OSError as refused:
            evidence = (str(refused),)
            return FileVerdict(
                path=file.path, fault=Fault.UNREADABLE, cause="cannot be read", evidence=evidence
            )


def hash_path(file: LockedFile, path: Path, *, came: Callable[[int], None], stop: threading.Event) -> str:
    """The hash of ``path`` in the kind of ``file``. Raises OSError; StoppedError when ``stop`` is set."""
    digest = new_hash(file)
    buffer = memoryview(bytearray(_HASH_BYTES))
    done = 0
    with path.open("rb", buffering=0) as handle:
        _read_ahead(handle.fileno(), 0)
        while count := handle.readinto(buffer):
            if stop.is_set():
                raise StoppedError
            if done // _AHEAD_BYTES != (done + count) // _AHEAD_BYTES:
                _read_ahead(handle.fileno(), (done + count) // _AHEAD_BYTES * _AHEAD_BYTES + _AHEAD_BYTES)
            digest.update(buffer[:count])
            done += count
            came(count)
    return str(digest.hexdigest())


def _read_ahead(handle: int, offset: int) -> None:
    """Let the disk work on the next bytes while a core hashes these; a kernel's own read-ahead is 128 KB."""
    length = _AHEAD_BYTES if offset else 2 * _AHEAD_BYTES
    os.posix_fadvise(handle, offset, length, os.POSIX_FADV_WILLNEED)


def _other_bytes(file: LockedFile, path: Path, digest: str) -> FileVerdict:
    """The verdict of a wrong hash: a hole of zeros is named, since that is a lost write, not another file."""
    evidence = [f"hash {digest}, models.lock says {file.blob_name}"]
    offset, length = _longest_zeros(path)
    if length < _HOLE_BYTES:
        cause = "holds other bytes than models.lock names"
        return FileVerdict(path=file.path, fault=Fault.HASH, cause=cause, evidence=tuple(evidence))
    evidence.append(f"{length} bytes of zeros from byte {offset} on")
    cause = "has a hole of zeros"
    return FileVerdict(path=file.path, fault=Fault.ZEROS, cause=cause, evidence=tuple(evidence))


def _longest_zeros(path: Path) -> tuple[int, int]:
    """Offset and length of the longest run of whole zero pages."""
    best, start, at = (0, 0), 0, 0
    with path.open("rb") as handle:
        while page := handle.read(len(_PAGE)):
            if page != _PAGE[: len(page)]:
                start = at + len(page)
            elif at + len(page) - start > best[1]:
                best = (start, at + len(page) - start)
            at += len(page)
    return best
