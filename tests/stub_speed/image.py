"""The image of the engine with a planted speed: the stub engine's Python with ``server.py`` and some kept logs."""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from stub_engine.image import stub_image

HERE = Path(__file__).parent
TESTS = HERE.parent
FILES = (
    HERE / "server.py",
    HERE / "Dockerfile",
    TESTS / "stub_engine" / "start.log",
    TESTS / "cases" / "logs" / "B41.log",
    TESTS / "cases" / "logs" / "dflash-illegal-access.log",
)


def speed_image() -> str:
    """The image's reference; built when it is not there or its content changed."""
    base = stub_image()
    digest = hashlib.sha256(base.encode())
    for path in FILES:
        digest.update(path.read_bytes())
    reference = f"kitctl-speed-stub:{digest.hexdigest()[:12]}"
    there = subprocess.run(["docker", "image", "inspect", reference], capture_output=True, check=False)
    if there.returncode != 0:
        with tempfile.TemporaryDirectory() as folder:
            for path in FILES:
                shutil.copy2(path, folder)
            argv = ["docker", "build", "--quiet", "--build-arg", f"BASE={base}", "--tag", reference, folder]
            made = subprocess.run(argv, capture_output=True, text=True, check=False)
            assert made.returncode == 0, made.stderr
    return reference
