"""Make wheels out of what is installed here, so that the same files install on a host without network."""

from __future__ import annotations

import base64
import hashlib
import re
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import kitctl
from kitctl.errors import Exit, KitError

_EPOCH = (2020, 1, 1, 0, 0, 0)
_KEPT = ("METADATA", "WHEEL", "entry_points.txt", "top_level.txt")
_SKIPPED = {"__pycache__", ".git"}


def pack_wheel(name: str, folder: str) -> Path:
    """Write the wheel of the installed distribution ``name`` into ``folder``; its path.

    Every file is held against the RECORD that installed it. Raises KitError ``not-installed`` (exit 2) and
    ``package-changed`` (exit 5) for a file that is not as it was installed.
    """
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError as missing:
        raise _not_installed(name) from missing
    files = _source_files(found) if name == "kitctl" else None
    if files is None:
        files = _recorded_files(found)
    return _write(found, files, Path(folder))


def _recorded_files(found: metadata.Distribution) -> dict[str, bytes]:
    """Files of an installed wheel by their path in it, without scripts and what the installer wrote."""
    files = {}
    for entry in found.files or []:
        in_info = entry.parts[0].endswith(".dist-info")
        outside = ".." in entry.parts or entry.is_absolute() or "__pycache__" in entry.parts
        if outside or entry.hash is None or (in_info and not _is_kept(entry.parts)):
            continue
        content = Path(str(found.locate_file(entry))).read_bytes()
        if entry.hash.mode == "sha256" and _hash(content) != entry.hash.value:
            raise _changed(found, str(entry))
        files[str(entry)] = content
    return files


def _is_kept(parts: tuple[str, ...]) -> bool:
    return parts[-1] in _KEPT or len(parts) > 2 or "licen" in parts[-1].lower()


def _source_files(found: metadata.Distribution) -> dict[str, bytes] | None:
    """Files of kitctl's own source tree as its wheel has them; ``None`` when an installed wheel holds it."""
    package = Path(kitctl.__file__).parent
    root = package.parent
    if not (root / "pyproject.toml").is_file():
        return None
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    carried = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    files = {f"kitctl/{path.relative_to(package)}": path.read_bytes() for path in _below(package)}
    for source, target in carried.items():
        place = root / source
        inner = [place] if place.is_file() else _below(place)
        for path in inner:
            name = target if path == place else f"{target}/{path.relative_to(place)}"
            files[name] = path.read_bytes()
    info = _info_folder(found)
    for name in ("METADATA", "entry_points.txt"):
        text = found.read_text(name)
        if text is not None:
            files[f"{info}/{name}"] = text.encode()
    files[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: kitctl\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    return files


def _below(folder: Path) -> list[Path]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in found if not _SKIPPED & set(path.parts)]


def _write(found: metadata.Distribution, files: dict[str, bytes], folder: Path) -> Path:
    """The wheel: sorted, with one time for all, so that the same files give the same bytes."""
    info = _info_folder(found)
    plain_name = re.sub(r"[-_.]+", "_", found.metadata["Name"]).lower()
    name = f"{plain_name}-{found.version}-{_tag(files[f'{info}/WHEEL'])}.whl"
    rows = [f"{path},sha256={_hash(content)},{len(content)}\n" for path, content in sorted(files.items())]
    record = "".join([*rows, f"{info}/RECORD,,\n"]).encode()
    path = folder / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for inner, content in [*sorted(files.items()), (f"{info}/RECORD", record)]:
            entry = zipfile.ZipInfo(inner, _EPOCH)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
            wheel.writestr(entry, content)
    return path


def _info_folder(found: metadata.Distribution) -> str:
    """The name of the ``.dist-info`` folder."""
    inner = next((entry.parts[0] for entry in found.files or [] if ".dist-info" in entry.parts[0]), None)
    return inner or f"{found.metadata['Name'].replace('-', '_')}-{found.version}.dist-info"


def _tag(wheel: bytes) -> str:
    """``cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64`` out of the WHEEL file's Tag lines."""
    tags = [line.partition(":")[2].strip() for line in wheel.decode().splitlines() if line.startswith("Tag:")]
    columns = zip(*(tag.split("-") for tag in tags), strict=True)
    return "-".join(".".join(dict.fromkeys(column)) for column in columns)


def _hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _not_installed(name: str) -> KitError:
    return KitError(
        "not-installed",
        f"{name} is not installed here with its package metadata, so it cannot be carried along",
        remedy="install kitctl with pip, then run the command again; --no-kit leaves kitctl out",
        exit_code=Exit.USAGE,
    )


def _changed(found: metadata.Distribution, path: str) -> KitError:
    return KitError(
        "package-changed",
        f"{path} of {found.metadata['Name']} {found.version} is not as it was installed",
        remedy=f"pip install --force-reinstall {found.metadata['Name']}=={found.version}",
        exit_code=Exit.FETCH,
    )
