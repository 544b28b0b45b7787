"""The stub's image: this machine's own Python and the stub, so that no registry and no build is needed."""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).parent
LEFT_OUT = {"test", "tests", "site-packages", "idlelib", "tkinter", "ensurepip", "lib2to3", "turtledemo"}


def stub_image(docker_host: str | None = None) -> str:
    """The image's reference; imported into the engine first when it is not there."""
    tag = f"kitctl-stub:{_key()}"
    docker = ["docker", *(("--host", docker_host) if docker_host else ())]
    there = subprocess.run([*docker, "image", "inspect", tag], capture_output=True, check=False)
    if there.returncode != 0:
        entry = json.dumps([str(_interpreter()), "-I", "/stub/stub_server.py"])
        change = ["--change", f"ENTRYPOINT {entry}", "--change", "WORKDIR /tmp"]
        made = subprocess.run(
            [*docker, "import", *change, "-", tag], input=_archive(), capture_output=True, check=False
        )
        assert made.returncode == 0, made.stderr.decode()
    return tag


def _key() -> str:
    digest = hashlib.sha256(sys.version.encode() + Path(__file__).read_bytes())
    for name in ("stub_server.py", "start.log"):
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()[:12]


def _interpreter() -> Path:
    return Path(sys._base_executable).resolve()  # type: ignore[attr-defined]


def _archive() -> bytes:
    raw = io.BytesIO()
    paths = _files()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for path in paths:
            tar.add(path.resolve(), str(path).lstrip("/"), recursive=False)
        _add_shell(tar)
        for name in ("stub_server.py", "start.log"):
            tar.add(HERE / name, f"stub/{name}")
        for link in ("usr/bin/python3", "bin/python3"):
            if Path(f"/{link}") not in paths:
                info = tarfile.TarInfo(link)
                info.type, info.linkname = tarfile.SYMTYPE, str(_interpreter())
                tar.addfile(info)
    return raw.getvalue()


def _add_shell(tar: tarfile.TarFile) -> None:
    """Debian's busybox-static and its names: an imitated nvidia-smi is a shell script."""
    program = Path("/bin/busybox")
    if not program.exists():
        return
    tar.add(program, "bin/busybox")
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for applet in listed:
        link = tarfile.TarInfo(f"bin/{applet}")
        link.type, link.linkname = tarfile.SYMTYPE, "/bin/busybox"
        if applet not in ("busybox", "python3"):
            tar.addfile(link)


def _files() -> list[Path]:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    root = Path(sys.base_prefix) / "lib" / version
    library = [path for path in root.rglob("*") if path.is_file() and _is_wanted(path.relative_to(root))]
    binaries = [_interpreter(), *(path for path in library if path.suffix == ".so")]
    listed = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False).stdout
    shared = [Path(found) for found in re.findall(r"(/\S+) \(0x", listed)]
    return sorted({_interpreter(), *library, *shared})


def _is_wanted(path: Path) -> bool:
    is_optimized = path.name.endswith((".opt-1.pyc", ".opt-2.pyc"))
    return not (LEFT_OUT & set(path.parts) or path.parts[0].startswith("config-") or is_optimized)
