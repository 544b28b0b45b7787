"""The models that kitctl brings itself are placed, proven and mended without a hub."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from hubserver import Hub
from model_world import TINY, World, tiny_repo

from kitctl.kit.models_lock import ModelsLock, find_entry, read_models_lock
from kitctl.kit.models_lock_text import write_models_lock

KIT = read_models_lock((Path(__file__).parents[2] / "models.lock").read_text())
SHIPPED = ("kitctl/demo", "kitctl/demo-drafter")


@pytest.fixture
def with_demo(tmp_path: Path) -> Iterator[World]:
    """A locked model of the user's and those that the kit ships, nothing pulled."""
    with Hub({TINY: tiny_repo(200_000)}) as hub:
        made = World(tmp_path, hub)
        made.more_env["KITCTL_STORE"] = str(made.store)
        made.write_lock()
        lock = made.root / "kit" / "models.lock"
        models = (*read_models_lock(lock.read_text()).models, *(find_entry(KIT, name) for name in SHIPPED))
        lock.write_text(write_models_lock(ModelsLock(models=models)))
        yield made


def demo_folder(world: World) -> Path:
    (folder,) = (world.store / "models--kitctl--demo" / "snapshots").iterdir()
    return folder


def test_a_shipped_model_is_placed_without_a_hub_and_for_every_user(with_demo: World) -> None:
    with_demo.more_env["HF_ENDPOINT"] = "http://127.0.0.1:9"
    before = os.umask(0o077)
    try:
        done = with_demo.run("pull", *SHIPPED)
    finally:
        os.umask(before)
    assert (done.code, "taken from kitctl itself" in done.out) == (0, True), done.err
    package = files("kitctl.data").joinpath("demo")
    folder = demo_folder(with_demo)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        Path(str(one)).name: one.read_bytes() for one in package.iterdir()
    }
    modes = {path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert (modes, folder.parent.parent.stat().st_mode & 0o777) == ({0o644}, 0o755)
    again = with_demo.run("pull", *SHIPPED, "--json").data["models"]
    assert [(model["fetched_bytes"], model["reused_bytes"]) for model in again] == [(0, 0), (0, 0)]
    assert with_demo.run("verify", *SHIPPED).code == 0
    assert with_demo.hub.log == []


def test_a_damaged_copy_of_a_shipped_model_is_found_and_mended(with_demo: World) -> None:
    assert with_demo.run("pull", "kitctl/demo").code == 0
    weights = (demo_folder(with_demo) / "model.safetensors").resolve()
    raw = bytearray(weights.read_bytes())
    raw[-5] ^= 1
    weights.write_bytes(raw)
    assert with_demo.run("verify", "kitctl/demo").code == 5
    assert with_demo.run("verify", "kitctl/demo", "--repair").code == 0
    assert weights.read_bytes() == files("kitctl.data").joinpath("demo/model.safetensors").read_bytes()


def test_a_lock_of_another_release_is_refused(with_demo: World) -> None:
    lock = with_demo.root / "kit" / "models.lock"
    digest = next(file.sha256 for file in find_entry(KIT, "kitctl/demo").files if file.path == "config.json")
    lock.write_text(lock.read_text().replace(str(digest), "0" * 64))
    done = with_demo.run("pull", "kitctl/demo")
    assert (done.code, "shipped-model-differs" in done.err, "config.json" in done.err) == (5, True, True)
    assert "kitctl models lock kitctl/demo" in done.err


def test_a_folder_where_a_file_belongs_is_told_as_that(with_demo: World) -> None:
    assert with_demo.run("pull", "kitctl/demo").code == 0
    weights = (demo_folder(with_demo) / "model.safetensors").resolve()
    weights.unlink()
    weights.mkdir()
    done = with_demo.run("pull", "kitctl/demo")
    assert (done.code, "store-blocked" in done.err, str(weights) in done.err) == (3, True, True), done.err


def test_without_a_name_what_the_kit_ships_is_no_model_of_the_users(with_demo: World) -> None:
    """A verify of an empty store misses only what was locked; a pull brings both."""
    missed = with_demo.run("verify", "--json").data["models"]
    assert [model["name"] for model in missed] == ["org/tiny"]
    assert with_demo.run("pull").code == 0
    proven = with_demo.run("verify", "--json").data["models"]
    assert [model["name"] for model in proven] == [*SHIPPED, "org/tiny"]


def test_a_shipped_model_is_inspected_by_the_lock(with_demo: World) -> None:
    shape = with_demo.run("inspect", "kitctl/demo-drafter", "--json").data
    assert (shape["kind"], shape["origin"], shape["facts"]["block_size"]) == ("drafter", "models.lock", 8)


def test_the_lock_of_a_shipped_model_is_renewed_from_the_package(with_demo: World) -> None:
    lock = with_demo.root / "kit" / "models.lock"
    whole = lock.read_text()
    digest = next(file.sha256 for file in find_entry(KIT, "kitctl/demo").files if file.path == "config.json")
    lock.write_text(whole.replace(str(digest), "0" * 64))
    assert with_demo.run("lock", "kitctl/demo").code == 0
    assert lock.read_text() == whole
