"""kitctl itself for a host without network: wheels of it and of what it imports, and a script that installs them."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from kitctl.bundle.manifest import (
    MANIFEST_NAME,
    SUMS_NAME,
    BundleFile,
    Manifest,
    digest_of,
    manifest_text,
    sums_text,
)
from kitctl.edge.files import write_atomic, writing
from kitctl.edge.package_data import package_text
from kitctl.edge.process import run_process
from kitctl.edge.remote_pack import requirements
from kitctl.edge.wheel_pack import pack_wheel
from kitctl.errors import Exit, KitError

KIT_FOLDER = "kit"
README_NAME = "README.txt"
_FETCH_S = 900.0


def write_kit(folder: str, *, pythons: tuple[str, ...]) -> None:
    """Fill ``folder/kit``: wheels for this Python from what is installed, for ``pythons`` (``3.12``) from the index.

    Raises KitError ``not-installed`` (exit 2), ``package-changed``, ``kit-wheels`` (exit 5).
    """
    kit = Path(folder) / KIT_FOLDER
    needed = requirements(frozenset())
    with writing(str(kit)):
        kit.mkdir(parents=True, exist_ok=True)
        for old in kit.iterdir():
            old.unlink()
        for name in ("kitctl", *needed):
            pack_wheel(name, str(kit))
    for python in pythons:
        _fetch(needed, python, kit)
    write_atomic(str(kit / "requirements.txt"), _requirements(kit))
    write_atomic(str(kit / "install.sh"), package_text("bundle_install.sh"), mode=0o755)


def _requirements(kit: Path) -> str:
    """One line a distribution, with the hash of each of its wheels: pip installs nothing else."""
    wheels: dict[str, list[str]] = {}
    for wheel in sorted(kit.glob("*.whl")):
        distribution, version = wheel.name.split("-")[:2]
        wheels.setdefault(f"{distribution.lower()}=={version}", []).append(_sha256(wheel))
    return "".join(
        " ".join((requirement, *(f"--hash=sha256:{digest}" for digest in digests))) + "\n"
        for requirement, digests in sorted(wheels.items())
    )


def write_readme(folder: str) -> None:
    """The note that tells a person what to do with the folder."""
    write_atomic(f"{folder}/{README_NAME}", package_text("bundle_readme.txt"))


def write_manifest(folder: str, manifest: Manifest) -> None:
    """Write SHA256SUMS, then the manifest: with that the bundle is whole."""
    text = manifest_text(manifest)
    write_atomic(f"{folder}/{SUMS_NAME}", sums_text(manifest, digest_of(text)))
    write_atomic(f"{folder}/{MANIFEST_NAME}", text.decode())


def plain_files(folder: str) -> tuple[BundleFile, ...]:
    """The plain files of a bundle with their hashes."""
    root = Path(folder)
    paths = [root / README_NAME, *sorted((root / KIT_FOLDER).glob("*"))]
    return tuple(
        BundleFile(path=str(path.relative_to(root)), size_bytes=path.stat().st_size, sha256=_sha256(path))
        for path in paths
        if path.is_file()
    )


def _fetch(needed: dict[str, str], python: str, kit: Path) -> None:
    exact = [f"{name}=={version}" for name, version in needed.items()]
    argv = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
            "--only-binary=:all:", "--python-version", python, "--dest", str(kit), *exact)  # fmt: skip
    done = run_process(argv, timeout_s=_FETCH_S)
    if not done.ok:
        raise KitError(
            "kit-wheels",
            f"kitctl's libraries could not be fetched for Python {python}",
            evidence=tuple((done.stderr.strip() or str(done.failure)).splitlines()[-4:]),
            remedy="give pip here its package index, or leave --python out: wheels for this Python need no index",
            exit_code=Exit.FETCH,
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
