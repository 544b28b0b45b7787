"""Room for models and the image that serves them, on real small file systems and a real engine of the test's own."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from gpuhost.gpu_host import GpuHost, running_gpu_host
from hubserver import Hub, Repo
from model_world import TINY, World, random_bytes, safetensors

pytestmark = pytest.mark.docker
KIT = Path(__file__).parents[2]
IMAGE_BYTES = tomllib.loads((KIT / "kitctl/data/image_sizes.toml").read_text())["0.5.16"]["gpu"]
MODEL_BYTES = 24 * 1024**2


@dataclass
class Disk:
    """A file system in memory that takes no more than it is told."""

    path: Path

    def resize(self, size_bytes: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size_bytes}", self.path], check=True)


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    path = tmp_path_factory.mktemp("disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4g", "kitctl-test", path], check=True)
    yield Disk(path)
    subprocess.run(["umount", "-l", path], check=False)


@pytest.fixture(scope="module")
def engine(disk: Disk) -> Iterator[GpuHost]:
    """An engine with GPUs whose root lies on ``disk``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(disk.path))
        with running_gpu_host() as host:
            patch.undo()
            yield host


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A kit whose one GPU stack serves a model of 24 MB."""
    with Hub({TINY: Repo({"model.safetensors": safetensors({"a": random_bytes(MODEL_BYTES, 3)})})}) as hub:
        made = World(tmp_path, hub)
        made.write_lock()
        stacks = tmp_path / "kit" / "compose" / "stacks"
        stacks.mkdir(parents=True)
        (stacks / "small.yaml").write_text(f"summary: small\nmodel: {TINY}\n")
        shutil.copytree(KIT / "images", tmp_path / "kit" / "images")
        yield made


def pull(world: World, store: Path, *words: str) -> tuple[int, dict[str, object]]:
    done = world.run("pull", "--store", str(store), "--json", *words)
    return done.code, json.loads(done.out)


def test_models_and_image_that_fit_one_disk_only_one_by_one_are_refused(
    disk: Disk, engine: GpuHost, world: World
) -> None:
    world.more_env["DOCKER_HOST"] = engine.docker_host
    used = shutil.disk_usage(disk.path).used
    disk.resize(used + int(1.05 * IMAGE_BYTES) + MODEL_BYTES // 2)
    code, said = pull(world, disk.path / "store")
    assert (code, said["code"], world.hub.log) == (3, "disk-full", [])
    assert isinstance(said["evidence"], list)
    model, image = map(str, said["evidence"])
    assert model == f"{TINY} in {disk.path / 'store'}: 25.2 MB"
    assert image.startswith("the image kitctl/sglang:")
    assert image.endswith(f" in {engine.folder}/data: {IMAGE_BYTES / 1e9:.1f} GB")
    disk.resize(used + int(1.05 * (IMAGE_BYTES + 2 * MODEL_BYTES)))
    assert pull(world, disk.path / "store")[0] == 0
    shutil.rmtree(disk.path / "store")


def test_an_engine_disk_of_its_own_must_hold_the_image(disk: Disk, engine: GpuHost, world: World) -> None:
    world.more_env["DOCKER_HOST"] = engine.docker_host
    disk.resize(4 * 1024**3)
    code, said = pull(world, world.store)
    assert (code, said["code"], world.hub.log) == (3, "disk-full", [])
    assert str(said["cause"]).startswith(f"{engine.folder}/data has ")
    assert pull(world, world.store, "--no-image-room")[0] == 0
    assert pull(world, world.store)[0] == 0


def test_an_engine_without_gpus_needs_no_room_for_a_gpu_image(gpuless_host: GpuHost, world: World) -> None:
    world.more_env["DOCKER_HOST"] = gpuless_host.docker_host
    assert pull(world, world.store)[0] == 0


def test_without_an_engine_only_the_models_count(world: World) -> None:
    world.more_env["DOCKER_HOST"] = "unix:///nowhere/docker.sock"
    done = world.run("pull", "--store", str(world.store))
    assert done.code == 0
    assert "no container engine answers: no room is counted for an image" in done.err
