"""Read a cache volume of compiled kernels out of the engine, and fill one, through its archive API.

Nothing runs for it: a container of the volume's own image is created, without network and capabilities, and never
started. While a volume is being filled that container is the mark of it, so that whoever is killed leaves a volume
that is known to be half filled.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from kitctl.bundle.cache import MODE_MASK, CacheEntry, entry_problems
from kitctl.edge.docker_client import engine_calls
from kitctl.edge.docker_engine import image_user
from kitctl.edge.image_archive import CHUNK_BYTES, ChunkStream
from kitctl.errors import Exit, KitError
from kitctl.plan.planner import CACHE_ROOT
from kitctl.plan.read_access import ENGINE_UID, uid_of
from kitctl.render.compose import LABEL

_READING, _FILLING = f"{LABEL}.cache-read", f"{LABEL}.cache-fill"
_ROOT = CACHE_ROOT.removeprefix("/")
_LAST_S = 2**33
_ROOT_MODE = 0o1777
"""As the kit's images make the folder (``images/sglang/Dockerfile``)."""


@dataclass(frozen=True, kw_only=True)
class CacheContent:
    """What lies in a volume. ``sizes``: bytes of each file's object by its sha256."""

    volume: str
    entries: tuple[CacheEntry, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Bytes of all the objects, each once."""
        return sum(self.sizes.values())


def cache_volumes(prefix: str) -> dict[str, dict[str, str]]:
    """The labels of each volume whose name begins with ``prefix``, by name."""
    with engine_calls() as client:
        found = client.volumes.list(filters={"name": prefix})
        return {
            str(one.name): dict(one.attrs.get("Labels") or {})
            for one in sorted(found, key=lambda one: str(one.name))
            if str(one.name).startswith(prefix)
        }


def is_half_filled(volume: str) -> bool:
    """Whether somebody fills the volume, or was killed while filling it."""
    with engine_calls() as client:
        return bool(client.api.containers(all=True, filters={"label": f"{_FILLING}={volume}"}))


def require_free(volume: str) -> None:
    """Raises KitError ``cache-in-use`` (exit 3) when another container than a killed import's has the volume."""
    with engine_calls() as client:
        for one in client.api.containers(all=True, filters={"volume": volume}):
            if not {_FILLING, _READING} & set(one.get("Labels") or {}):
                raise _in_use(volume, ", ".join(one.get("Names") or [one["Id"]]))


def has_content(volume: str, reference: str) -> bool:
    """Whether an existing volume holds a file or a link. ``reference``: an image on the engine."""
    with _members(volume, reference) as members:
        return any(not member.isdir() for member in members)


def read_content(volume: str, reference: str) -> CacheContent:
    """All of the volume, its files hashed. Raises KitError ``cache-unsafe`` (exit 3) for what no bundle carries."""
    entries: list[CacheEntry] = []
    sizes: dict[str, int] = {}
    files: dict[str, str] = {}
    with _members(volume, reference) as members:
        for member in members:
            entry = _entry(volume, member)
            if member.isfile():
                digest = hashlib.sha256()
                for chunk in _chunks(members, member):
                    digest.update(chunk)
                files[member.name] = digest.hexdigest()
                sizes[files[member.name]] = member.size
            if not member.isdir() and not member.issym():
                name = member.name if member.isfile() else member.linkname
                if name not in files:
                    raise _unsafe(volume, f"{entry.path!r} is another name of something outside")
                entry = replace(entry, sha256=files[name])
            entries.append(entry)
    for problem in entry_problems(entries):
        raise _unsafe(volume, problem)
    return CacheContent(volume=volume, entries=tuple(entries), sizes=sizes)


def copy_files(
    content: CacheContent, reference: str, *, sink: Callable[[str, str, int, Iterator[bytes]], None]
) -> None:
    """Read the volume's files again. ``sink`` gets path, sha256 as it was, size in bytes and chunks of each."""
    known = {entry.path: entry.sha256 for entry in content.entries}
    with _members(content.volume, reference) as members:
        for member in members:
            path = member.name.removeprefix(f"{_ROOT}/")
            sha256 = known.get(path)
            if member.isfile() and sha256 is not None:
                sink(path, sha256, content.sizes[sha256], _chunks(members, member))


def fill_volume(
    content: CacheContent,
    reference: str,
    *,
    labels: dict[str, str],
    chunks: Callable[[str], Iterator[bytes]],
) -> None:
    """Make the volume, with ``labels``, and fill it; an earlier half of it goes first. ``chunks``: an object's bytes.

    What fails takes the volume with it. Raises KitError ``cache-in-use`` (exit 3), what the engine says (exit 6 or 10).
    """
    volume = content.volume
    uid = uid_of(image_user(reference) or "")
    drop_volume(volume)
    with engine_calls() as client:
        container = _create(client, volume, reference, mark=_FILLING, labels=labels)
        try:
            client.api.put_archive(
                container, "/", _archive(content, chunks, ENGINE_UID if uid is None else uid)
            )
        except BaseException:
            with suppress(KitError):
                drop_volume(volume)
            raise
        client.api.remove_container(container, force=True, v=True)


def drop_volume(volume: str) -> None:
    """Remove a volume that is empty or half filled. Raises KitError ``cache-in-use`` (exit 3)."""
    import docker.errors

    with engine_calls() as client:
        _drop_marked(client, _FILLING, volume)
        try:
            client.volumes.get(volume).remove()
        except docker.errors.NotFound:
            return
        except docker.errors.APIError as used:
            raise _in_use(volume, str(used.explanation or used)) from used


@contextmanager
def _members(volume: str, reference: str) -> Iterator[tarfile.TarFile]:
    """The archive of what lies below the volume's root."""
    with engine_calls() as client:
        _drop_marked(client, _READING, volume)
        container = _create(client, volume, reference, mark=_READING, labels={})
        stream: Iterator[bytes] = iter(())
        try:
            stream, _ = client.api.get_archive(container, CACHE_ROOT, chunk_size=CHUNK_BYTES)
            with _Below.open(fileobj=ChunkStream(stream), mode="r|", bufsize=CHUNK_BYTES) as archive:
                yield archive
        except tarfile.TarError as broken:
            raise _unsafe(volume, f"the engine's answer ended early ({broken})") from broken
        finally:
            for _ in stream:  # the engine keeps the container locked until its answer is read
                pass
            client.api.remove_container(container, force=True, v=True)


class _Below(tarfile.TarFile):
    """An archive of a folder, read without the folder itself."""

    def __iter__(self) -> Iterator[tarfile.TarInfo]:
        for member in super().__iter__():
            if member.name != _ROOT:
                yield member


def _create(client: Any, volume: str, reference: str, *, mark: str, labels: dict[str, str]) -> str:
    """A container that is never started; the volume is made with ``labels`` where it is missing.

    The volume stays as it is: an engine would copy the image's own folder into one that is empty.
    """
    from docker.types import Mount

    mount = Mount(CACHE_ROOT, volume, type="volume", no_copy=True, labels=labels, read_only=mark == _READING)
    host = client.api.create_host_config(
        mounts=[mount], network_mode="none", cap_drop=["ALL"], security_opt=["no-new-privileges"]
    )
    made = client.api.create_container(reference, command=["true"], labels={mark: volume}, host_config=host)
    return str(made["Id"])


def _drop_marked(client: Any, mark: str, volume: str) -> None:
    """Remove the containers that an earlier kitctl left when it was killed."""
    import docker.errors

    for one in client.api.containers(all=True, filters={"label": f"{mark}={volume}"}):
        with suppress(docker.errors.NotFound):
            client.api.remove_container(one["Id"], force=True, v=True)


def _entry(volume: str, member: tarfile.TarInfo) -> CacheEntry:
    """What the bundle says of the member; a file's hash is still to come."""
    path = member.name.removeprefix(f"{_ROOT}/")
    if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
        raise _unsafe(volume, f"{path!r} is a device or a pipe")
    if member.mode & ~MODE_MASK:
        raise _unsafe(volume, f"{path!r} has a setuid, setgid or sticky bit (mode {member.mode:o})")
    mtime_s = min(max(int(member.mtime), 0), _LAST_S)
    link = member.linkname if member.issym() else None
    return CacheEntry(path=path, mode=member.mode, mtime_s=mtime_s, link=link)


def _chunks(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    handle = archive.extractfile(member)
    while handle is not None and (chunk := handle.read(CHUNK_BYTES)):
        yield chunk


def _archive(content: CacheContent, chunks: Callable[[str], Iterator[bytes]], uid: int) -> Iterator[bytes]:
    """The volume as the engine unpacks it, its root first: a volume that was just made is root's."""
    for entry in (None, *content.entries):
        info = tarfile.TarInfo(_ROOT if entry is None else f"{_ROOT}/{entry.path}")
        info.type, info.mode, info.uid, info.gid = tarfile.DIRTYPE, _ROOT_MODE, uid, uid
        info.mtime = max(one.mtime_s for one in content.entries)
        if entry is not None:
            info.mode, info.mtime = entry.mode, entry.mtime_s
        if entry is not None and entry.link is not None:
            info.type, info.linkname = tarfile.SYMTYPE, entry.link
        if entry is not None and entry.sha256 is not None:
            info.type, info.size = tarfile.REGTYPE, content.sizes[entry.sha256]
        yield info.tobuf(tarfile.PAX_FORMAT)
        if entry is not None and entry.sha256 is not None:
            yield from chunks(entry.sha256)
            yield bytes(-info.size % tarfile.BLOCKSIZE)
    yield bytes(tarfile.BLOCKSIZE * 2)


def _unsafe(volume: str, problem: str) -> KitError:
    return KitError(
        "cache-unsafe",
        f"the cache volume {volume} cannot be carried: {problem}",
        remedy=f"leave caches out with --no-caches, or docker volume rm {volume}: the next start compiles anew",
        exit_code=Exit.REFUSED,
    )


def _in_use(volume: str, seen: str) -> KitError:
    return KitError(
        "cache-in-use",
        f"the cache volume {volume} is to be filled anew and a container has it",
        evidence=(seen,),
        remedy=f"docker ps --all --filter volume={volume} names it: kitctl down its stack, then run it again",
        exit_code=Exit.REFUSED,
    )
