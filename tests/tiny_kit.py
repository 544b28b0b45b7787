"""A kit of a test's own, whose CPU image is a few MB: the stub engine under the name and labels of a pin set."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kitctl_process import KIT, KitUser, docker

from kitctl.commands.building import BuildWish, plan_request
from kitctl.plan.build import BuildRequest

MARK = "kitctl.test.owner"


@dataclass(frozen=True, kw_only=True)
class TinyKit:
    """The kit's folder and the build request of its CPU image."""

    folder: Path
    request: BuildRequest

    @property
    def reference(self) -> str:
        """The image's name; no other kit uses it."""
        return self.request.reference

    def build(self, base: str, *, content: str = "one", docker_host: str | None = None) -> str:
        """Put the image onto the engine; its id. Other ``content`` gives another image of the same name and labels."""
        labels = [word for pair in self.request.labels.items() for word in ("--label", "=".join(pair))]
        host = ("--host", docker_host) if docker_host else ()
        with tempfile.TemporaryDirectory() as context:
            programs = Path(context) / "root" / "usr" / "bin"
            programs.mkdir(parents=True)
            (programs / "python").symlink_to("python3")
            (programs / "dpkg-query").write_text("#!/usr/bin/python3\nprint('base-files 12')\n")
            (programs / "dpkg-query").chmod(0o755)
            (programs.parents[1] / "content").write_text(content)
            (Path(context) / "Dockerfile").write_text(f"FROM {base}\nCOPY root/ /\n")
            argv = ["docker", *host, "buildx", "build", "--quiet", "--provenance=false", *labels]
            argv += ["--label", f"{MARK}=1", "--load", "--tag", self.reference, context]
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return docker("image", "inspect", "--format", "{{.Id}}", self.reference)

    def remove_image(self) -> None:
        """Take the image off the engine."""
        subprocess.run(["docker", "image", "rm", "--force", self.reference], capture_output=True, check=False)

    def record(self, user: KitUser, image_id: str) -> Path:
        """A build record of the image in the user's state folder, as ``kitctl build`` writes it."""
        body = {
            "schema": "kitctl.image/1",
            "image": self.request.image,
            "release": self.request.release,
            "stage": self.request.stage,
            "reference": self.reference,
            "image_id": image_id,
            "pins_hash": self.request.pins_hash,
            "inputs_hash": self.request.inputs_hash,
            "base": self.request.base.reference,
            "base_kind": self.request.base.kind.value,
            "base_id": None,
            "built_at": "2026-11-29T00:00:00.000Z",
            "seconds": {},
            "size_bytes": 1000,
            "layers": [],
        }
        path = user.state / "images" / f"{re.sub('[/:]', '_', self.reference)}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(body))
        return path


@contextmanager
def tiny_kit(folder: Path) -> Iterator[TinyKit]:
    """A copy of the kit whose pins give image names of its own; its image is removed at the end."""
    kit = folder / "kit"
    for name in ("compose", "images"):
        shutil.copytree(KIT / name, kit / name)
    shutil.copy(KIT / "models.lock", kit / "models.lock")
    pins = kit / "images" / "sglang" / "pins.toml"
    epoch = f"source_date_epoch = {1_000_000_000 + secrets.randbelow(10**9)}"
    pins.write_text(re.sub(r"source_date_epoch = \d+", epoch, pins.read_text()))
    _, request = plan_request(str(kit), BuildWish(image="sglang", stage="cpu"))
    made = TinyKit(folder=kit, request=request)
    try:
        yield made
    finally:
        made.remove_image()
