"""The store in a container: mounts alone, read-only, without dangling links; what runs is not removed."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hubserver import Hub
from model_world import TINY, World, tiny_repo

pytestmark = pytest.mark.docker
RUN = ("docker", "run", "--rm", "--network", "none")
IMAGE = f"kitctl-test-mount:{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module", autouse=True)
def image() -> Iterator[None]:
    """An image of Debian's busybox-static alone."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add("/bin/busybox", "bin/busybox")
    subprocess.run(["docker", "import", "-", IMAGE], input=packed.getvalue(), check=True, capture_output=True)
    yield
    subprocess.run(["docker", "rmi", "-f", IMAGE], check=True, capture_output=True)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Hub({TINY: tiny_repo(200_000)}) as hub:
        made = World(tmp_path, hub)
        made.write_lock()
        assert made.pull().code == 0
        yield made


def mount_of(world: World) -> str:
    return f"type=bind,source={world.repo_folder},target=/models,readonly"


def test_every_file_is_read_inside_a_container(world: World) -> None:
    argv = [*RUN, "--mount", mount_of(world), IMAGE, "/bin/busybox", "find", "-L", "/models/snapshots"]
    done = subprocess.run([*argv, "-type", "f"], capture_output=True, text=True, check=True)
    inside = {line.removeprefix(f"/models/snapshots/{'a' * 40}/") for line in done.stdout.splitlines()}
    assert inside == set(world.hub.repos[TINY].files)


def test_what_a_running_container_mounts_is_not_removed(world: World) -> None:
    (world.root / "kit" / "models.lock").write_text("")
    name = f"kit-models-{uuid.uuid4().hex[:8]}"
    argv = [
        *RUN,
        "-d",
        "--name",
        name,
        "--mount",
        mount_of(world),
        IMAGE,
        "/bin/busybox",
        "sleep",
        "infinity",
    ]
    subprocess.run(argv, check=True, capture_output=True)
    try:
        refused = world.run("rm", TINY, "--store", str(world.store), "--json")
    finally:
        subprocess.run(["docker", "rm", "-f", name], check=True, capture_output=True)
    body = json.loads(refused.out)
    assert (refused.code, body["code"]) == (3, "model-in-use")
    assert body["evidence"] == [f"the running container {name} mounts {world.repo_folder}"]
    assert world.run("rm", TINY, "--store", str(world.store)).code == 0
