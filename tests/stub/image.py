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
            argv = [*docker, "build", "--quiet", "--build-arg", f"BASE={base}", "--tag", reference, folder]
            made = subprocess.run(argv, capture_output=True, text=True, check=False)
            assert made.returncode == 0, made.stderr
    return reference


def _content_key(base: str) -> str:
    paths = [HERE / "server.py", HERE / "Dockerfile", *sorted(LOGS.glob("*.log"))]
    digest = hashlib.sha256(base.encode())
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
