"""What travels to a remote host: kitctl and what it imports, which stay there; the kit and the files of a command."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import io
import platform
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import kitctl
from kitctl.edge.environment import config_dir
from kitctl.edge.process import run_process
from kitctl.errors import Exit, KitError

_PACKAGE = Path(kitctl.__file__).parent
_LEFT_OUT = {"__pycache__", "_kit"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRA = re.compile(r"extra\s*==\s*['\"](?P<name>[^'\"]+)['\"]")
_FETCH_S = 900.0
_KEY_LENGTH = 16


def code_files() -> dict[str, Path]:
    """kitctl's own files, and the metadata that says what it needs, by their place in the archive."""
    found = (path for path in sorted(_PACKAGE.rglob("*")) if path.is_file())
    own = {
        f"kitctl/{path.relative_to(_PACKAGE)}": path
        for path in found
        if not _LEFT_OUT & set(path.relative_to(_PACKAGE).parts)
    }
    listed = importlib.metadata.distribution("kitctl").files or [] if _is_installed("kitctl") else []
    return own | {str(e): Path(str(e.locate())) for e in listed if e.name == "METADATA"}


def key_of(files: Mapping[str, Path]) -> str:
    """One hash over names and contents."""
    digest = hashlib.sha256()
    for name, path in files.items():
        digest.update(f"{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:_KEY_LENGTH]


def requirements(extras: frozenset[str]) -> dict[str, str]:
    """Name and version of every distribution that kitctl imports here, itself left out, by name.

    ``extras`` are kitctl's own (``tune``). Raises KitError ``not-installed`` (exit 2) without their metadata.
    """
    found: dict[str, str] = {}
    wanted = [("kitctl", extras)]
    while wanted:
        name, chosen = wanted.pop()
        try:
            one = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError as missing:
            raise _not_installed(name) from missing
        key = one.metadata["Name"]
        if key in found:
            continue
        found[key] = one.version
        wanted += [(needed, frozenset()) for needed in _needed(one.requires or [], chosen)]
    found.pop("kitctl", None)
    return dict(sorted(found.items()))


def _needed(requires: Iterable[str], extras: frozenset[str]) -> list[str]:
    """Names of the requirements that are installed; those behind an extra that was not asked for are left out."""
    names = []
    for line in requires:
        name, extra = _NAME.match(line), _EXTRA.search(line)
        if name and (extra is None or extra["name"] in extras) and _is_installed(name[0]):
            names.append(name[0])
    return names


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _not_installed(name: str) -> KitError:
    return KitError(
        "not-installed",
        f"{name} lies here without its package metadata, so what it needs on the other host is unknown",
        remedy="install kitctl with pip, then run the command again",
        exit_code=Exit.USAGE,
    )


def own_tag() -> str:
    """Python, its version, system, processor and C library of this process, as the remote's agent spells them."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    libc = platform.libc_ver()[0] or "musl"
    return "-".join(
        (
            platform.python_implementation().lower(),
            version,
            platform.system().lower(),
            platform.machine(),
            libc,
        )
    )


def library_archive(found: Mapping[str, str], tag: str) -> bytes:
    """The distributions for a host of ``tag``: this machine's own files if it is alike, else fetched wheels."""
    if tag == own_tag():
        return pack(_installed_files(found))
    with tempfile.TemporaryDirectory(prefix="kitctl-") as folder:
        _fetch_wheels(found, tag, folder)
        root = Path(folder)
        return pack({str(path.relative_to(root)): path for path in sorted(root.rglob("*")) if path.is_file()})


def _installed_files(found: Iterable[str]) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for name in found:
        for entry in importlib.metadata.distribution(name).files or []:
            outside = entry.is_absolute() or ".." in entry.parts or "__pycache__" in entry.parts
            path = Path(str(entry.locate()))
            if not outside and path.is_file():
                files[str(entry)] = path
    return files


def _fetch_wheels(found: Mapping[str, str], tag: str, folder: str) -> None:
    """Wheels of the same versions for another Python or processor, from the package index that pip here uses.

    Raises KitError ``remote-libraries`` (exit 5).
    """
    _, version, _, machine, libc = tag.split("-")
    exact = [f"{name}=={number}" for name, number in found.items()]
    if importlib.util.find_spec("pip"):
        places = (
            ("musllinux_1_2",) if libc == "musl" else ("manylinux2014", "manylinux_2_28", "manylinux_2_17")
        )
        platforms = [word for place in places for word in ("--platform", f"{place}_{machine}")]
        tool: tuple[str, ...] = (sys.executable, "-m", "pip")
        target = ("--only-binary=:all:", "--python-version", version, *platforms)
    else:
        tool = (shutil.which("uv") or "uv", "pip")
        place = f"{machine}-unknown-linux-{'musl' if libc == 'musl' else 'gnu'}"
        target = ("--only-binary", ":all:", "--python-version", version, "--python-platform", place)
    words = ("install", "--quiet", "--no-deps", *target, "--target", folder, *exact)
    done = run_process((*tool, *words), timeout_s=_FETCH_S)
    if not done.ok:
        raise KitError(
            "remote-libraries",
            f"kitctl's libraries could not be fetched for the other host's Python {version} on {machine}",
            evidence=tuple((done.stderr.strip() or str(done.failure)).splitlines()[-4:]),
            remedy=f"give pip here its package index, or use Python {version} on {machine} here as well",
            exit_code=Exit.FETCH,
        )


def kit_files(kit_dir: str) -> dict[str, Path]:
    """The kit's files and the user's own stacks, overlays and lock, by their place in a job's folder."""
    kit, own = Path(kit_dir), Path(config_dir())
    found = {"kit/models.lock": kit / "models.lock"}
    for name in ("compose", "images"):
        found |= {f"kit/{p.relative_to(kit)}": p for p in sorted((kit / name).rglob("*")) if _is_carried(p)}
    mine = [p for p in sorted(own.rglob("*.yaml")) if _is_carried(p)]
    mine += [own / "models.lock"] if (own / "models.lock").is_file() else []
    return found | {f"config/{path.relative_to(own)}": path for path in mine}


def _is_carried(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def option_files(given: str, place: str) -> dict[str, Path]:
    """Files of an option's value, file or folder, by their place in a job's folder; none when it is not there."""
    path = Path(given)
    if path.is_dir():
        return {f"{place}/{p.relative_to(path)}": p for p in sorted(path.rglob("*")) if p.is_file()}
    return {place: path} if path.is_file() else {}


def size_of(files: Mapping[str, Path]) -> int:
    """Bytes of all files together."""
    return sum(path.stat().st_size for path in files.values())


def pack(files: Mapping[str, Path]) -> bytes:
    """A compressed tar of regular files with plain owners; links are followed."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz", compresslevel=6) as tar:
        for name, path in files.items():
            body = path.read_bytes()
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(body), 0o755 if path.stat().st_mode & 0o100 else 0o644
            tar.addfile(info, io.BytesIO(body))
    return raw.getvalue()


def bring_back(archive: bytes, places: Mapping[str, str]) -> list[str]:
    """Write the files of a remote job's tar to this machine; their paths.

    ``places`` maps a path in the job's folder to the local one. Whatever lies elsewhere, or is no plain file, is
    not written: a remote host decides nothing about this machine.
    """
    written = []
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for member in tar:
            target = _target(member.name, places)
            body = tar.extractfile(member) if member.isreg() and target is not None else None
            if body is not None and target is not None:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(body.read())
                written.append(str(target))
    return written


def _target(name: str, places: Mapping[str, str]) -> Path | None:
    parts = Path(name).parts
    if Path(name).is_absolute() or ".." in parts:
        return None
    for place, local in places.items():
        if name == place:
            return Path(local)
        if name.startswith(f"{place}/"):
            return Path(local) / name.removeprefix(f"{place}/")
    return None
