"""The image of the fault server: the stub engine's Python with ``server.py`` and the kept logs on top."""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from stub_engine.image import stub_image

HERE = Path(__file__).parent
LOGS = HERE.parent / "cases" / "logs"
REPOSITORY = "kitctl-fault-stub"
SHELL = Path("/bin/busybox")


def fault_image(docker_host: str | None = None) -> str:
    """The image's reference; built when it is not there or its content changed."""
    base = stub_image(docker_host)
    reference = f"{REPOSITORY}:{_content_key(base)}"
    docker = ["docker", *(("--host", docker_host) if docker_host else ())]
    there = subprocess.run([*docker, "image", "inspect", reference], capture_output=True, check=False)
    if there.returncode != 0:
        with tempfile.TemporaryDirectory() as folder:
            for name in ("Dockerfile", "server.py"):
                shutil.copy2(HERE / name, folder)
            shutil.copytree(LOGS, Path(folder) / "logs")
            _make_shell(Path(folder) / "bin")
            argv = [*docker, "build", "--quiet", "--build-arg", f"BASE={base}", "--tag", reference, folder]
            made = subprocess.run(argv, capture_output=True, text=True, check=False)
            assert made.returncode == 0, made.stderr
    return reference


def _make_shell(place: Path) -> None:
    """A shell and the few programs that an imitated nvidia-smi needs."""
    assert SHELL.exists(), "no /bin/busybox: install Debian's busybox-static first"
    place.mkdir()
    shutil.copy2(SHELL, place)
    for name in ("sh", "sort", "tr", "wc", "cat"):
        (place / name).symlink_to("busybox")


def _content_key(base: str) -> str:
    paths = [Path(__file__), HERE / "server.py", HERE / "Dockerfile", *sorted(LOGS.glob("*.log"))]
    digest = hashlib.sha256(base.encode())
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
