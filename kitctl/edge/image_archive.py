"""Read an image out of the engine, and put one in, as a stream of blobs; nothing is kept whole in memory."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kitctl.bundle.image_tree import (
    INDEX_NAME,
    MAX_JSON_BYTES,
    ImageTree,
    digest_of_blob,
    read_image_tree,
)
from kitctl.edge.docker_client import engine_calls
from kitctl.edge.docker_engine import find_image
from kitctl.errors import Exit, KitError

CHUNK_BYTES = 1024**2


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One file of a saved image. ``read(n)`` gives its next bytes, ``b""`` at its end; skipped when not read."""

    name: str
    size_bytes: int
    read: Callable[[int], bytes]


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A saved image: its tree, and the size in bytes of each of its blobs by digest."""

    tree: ImageTree
    blobs: dict[str, int]


def image_bytes(reference: str) -> int:
    """What the engine says that the image takes: its saved size, or more. Raises KitError (exit 3, 6 or 10)."""
    image = find_image(reference)
    if image is None:
        raise _missing(reference)
    return int(image.attrs["Size"])


def image_entries(reference: str) -> Iterator[Entry]:
    """The files of ``docker save REFERENCE`` as they come.

    Raises KitError ``image-missing`` (exit 3) and what the engine's failures are told as (exit 5, 6 or 10).
    """
    import docker.errors

    with engine_calls() as client:
        stream = ChunkStream(client.api.get_image(reference, chunk_size=CHUNK_BYTES))
        try:
            with tarfile.open(fileobj=stream, mode="r|", bufsize=CHUNK_BYTES) as archive:
                for member in archive:
                    handle = archive.extractfile(member) if member.isfile() else None
                    if handle is not None:
                        yield Entry(name=member.name, size_bytes=member.size, read=handle.read)
        except docker.errors.NotFound as gone:
            raise _missing(reference) from gone
        except tarfile.TarError as broken:
            raise _cut_off(reference, str(broken)) from broken


def read_image(reference: str, *, sink: Callable[[str, int, Iterator[bytes]], None]) -> Saved:
    """Read the whole image. ``sink`` gets each blob's digest, size in bytes and chunks, and may leave chunks unread.

    Each blob is held against its digest. Raises KitError ``image-blob-damaged`` or ``image-archive`` (exit 5).
    """
    small: dict[str, bytes] = {}
    sizes: dict[str, int] = {}
    index = b""
    for entry in image_entries(reference):
        digest = digest_of_blob(entry.name)
        if entry.name == INDEX_NAME and entry.size_bytes <= MAX_JSON_BYTES:
            index = b"".join(_chunks_of(entry))
        if digest is None:
            continue
        tap = _Tap(entry)
        sink(digest, entry.size_bytes, tap.chunks)
        found = tap.finish()
        if found != digest:
            raise _damaged(reference, digest, found)
        sizes[digest] = entry.size_bytes
        if tap.kept[:1] == b"{":
            small[digest] = bytes(tap.kept)
    return Saved(tree=read_image_tree(index, small, known=frozenset(sizes)), blobs=sizes)


class _Tap:
    """The chunks of a blob, hashed while they pass; those of a small one are kept too."""

    def __init__(self, entry: Entry) -> None:
        self._digest, self._is_small = hashlib.sha256(), entry.size_bytes <= MAX_JSON_BYTES
        self.kept = bytearray()
        self.chunks = self._pass(entry)

    def _pass(self, entry: Entry) -> Iterator[bytes]:
        for chunk in _chunks_of(entry):
            self._digest.update(chunk)
            if self._is_small:
                self.kept += chunk
            yield chunk

    def finish(self) -> str:
        """The blob's digest, once what was left unread has been read too."""
        for _ in self.chunks:
            pass
        return f"sha256:{self._digest.hexdigest()}"


def _chunks_of(entry: Entry) -> Iterator[bytes]:
    """The entry's bytes in chunks."""
    while chunk := entry.read(CHUNK_BYTES):
        yield chunk


def load_image(files: Iterable[tuple[str, int, Iterable[bytes]]]) -> None:
    """Hand the engine a saved image: (name, size in bytes, chunks) of each file, in order.

    Raises KitError ``image-not-loaded`` (exit 6) with what the engine said; what an iterable raises goes through.
    """
    said: list[str] = []
    with engine_calls() as client:
        for line in client.api.load_image(_tar(files), quiet=True):
            said.append(str(line.get("error") or line.get("stream") or "").strip())
            if "error" in line:
                raise _not_loaded(said)


def _tar(files: Iterable[tuple[str, int, Iterable[bytes]]]) -> Iterator[bytes]:
    for name, size, chunks in files:
        info = tarfile.TarInfo(name)
        info.size, info.mode = size, 0o444
        yield info.tobuf(tarfile.GNU_FORMAT)
        yield from chunks
        yield bytes(-size % tarfile.BLOCKSIZE)
    yield bytes(tarfile.BLOCKSIZE * 2)


class ChunkStream(io.RawIOBase):
    """An iterator of chunks as the file that tarfile wants."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, memoryview(b"")

    def readable(self) -> bool:
        """It is read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer`` as far as the next chunk goes."""
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def _damaged(reference: str, digest: str, found: str) -> KitError:
    return KitError(
        "image-blob-damaged",
        f"a blob of {reference} is not what its digest says",
        evidence=(f"named {digest}", f"holds {found}"),
        remedy="the engine's disk lost bytes: look at it (dmesg), remove the image and build or load it again",
        exit_code=Exit.FETCH,
    )


def _missing(reference: str) -> KitError:
    return KitError(
        "image-missing",
        f"the image {reference} is not on this engine",
        remedy="kitctl build, or docker pull for an image of others",
        exit_code=Exit.REFUSED,
    )


def _cut_off(reference: str, said: str) -> KitError:
    return KitError(
        "image-archive",
        f"the engine's answer for {reference} ended early",
        evidence=(said,),
        remedy="run it again; docker save of the same image shows whether the engine can read it",
        exit_code=Exit.FETCH,
    )


def _not_loaded(said: list[str]) -> KitError:
    return KitError(
        "image-not-loaded",
        "the engine did not take the image",
        evidence=tuple(line for line in said[-5:] if line),
        remedy="see that the engine's disk has room and that its platform is the image's, then run it again",
        exit_code=Exit.START,
    )
