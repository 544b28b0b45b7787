"""``kitctl models`` list, lock, verify, add, inspect, du, prune and rm as real children."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hubserver import Hub
from model_world import TINY, World, random_bytes, safetensors, tiny_files, tiny_repo

SHARD = "model-00002-of-00003.safetensors"


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[World]:
    """Locked, nothing pulled."""
    with Hub({TINY: tiny_repo(200_000)}) as hub:
        made = World(tmp_path, hub)
        made.write_lock()
        yield made


@pytest.fixture(scope="module")
def pulled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pulled store, to be copied."""
    root = tmp_path_factory.mktemp("pulled")
    with Hub({TINY: tiny_repo(200_000)}) as hub:
        made = World(root, hub)
        made.write_lock()
        assert made.pull().code == 0
    return root / "store"


@pytest.fixture
def world(empty: World, pulled_once: Path) -> World:
    """A pulled store of its own."""
    shutil.copytree(pulled_once, empty.store, symlinks=True)
    return empty


def blob(world: World, path: str) -> Path:
    return (world.snapshot / path).resolve()


def faults(data: dict[str, object]) -> dict[str, str]:
    (model,) = data["models"]  # type: ignore[misc]
    return {fault["path"]: fault["code"] for fault in model["faults"]}


def overwrite(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def poke(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as handle:
        handle.seek(offset)
        handle.write(data)


def half_zeros(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 200000\n"
DAMAGES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "cut": (lambda path: os.truncate(path, path.stat().st_size - 100), "file-size", "quick"),
    "forty-bytes": (lambda path: os.truncate(path, 40), "file-size", "quick"),
    "empty": (lambda path: os.truncate(path, 0), "file-size", "quick"),
    "pointer": (lambda path: overwrite(path, POINTER), "lfs-pointer", "quick"),
    "html": (lambda path: overwrite(path, b"<!DOCTYPE html><html></html>"), "html-page", "quick"),
    "zeros": (lambda path: overwrite(path, bytes(path.stat().st_size)), "header-bad", "quick"),
    "longer": (lambda path: overwrite(path, path.read_bytes() + b"0123456789"), "file-size", "quick"),
    "half-zeros": (half_zeros, "zeros", "deep"),
    "flipped-byte": (lambda path: poke(path, 100_000, b"\0\1\2"), "hash-mismatch", "deep"),
    "gone": (lambda path: path.unlink(), "file-missing", "quick"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_shard_is_found_and_repaired(world: World, damage: str) -> None:
    harm, code, level = DAMAGES[damage]
    harm(blob(world, SHARD))
    quick, deep = world.verify("--quick"), world.verify()
    assert (deep.code, faults(deep.data)) == (5, {SHARD: code})
    assert (quick.code, faults(quick.data)) == ((5, {SHARD: code}) if level == "quick" else (0, {}))
    mended = world.verify("--repair")
    assert (mended.code, faults(mended.data), world.holds_all(), world.leftovers()) == (0, {}, True, [])
    got = {path for method, path, _ in world.hub.requests_for("/storage/") if method == "GET"}
    assert got == {f"/storage/{TINY}/{SHARD}"}


def test_a_small_file_with_other_content_is_found_by_the_quick_look(world: World) -> None:
    poke(blob(world, "config.json"), 0, b"[")
    verified = world.verify("--quick")
    assert (verified.code, faults(verified.data)) == (5, {"config.json": "hash-mismatch"})


def test_a_missing_link_is_told_and_mended_without_a_byte(world: World) -> None:
    (world.snapshot / SHARD).unlink()
    assert faults(world.verify("--quick").data) == {SHARD: "file-unlinked"}
    assert (world.pull().code, world.holds_all(), world.hub.log) == (0, True, [])


def test_findings_name_the_command_that_mends(world: World) -> None:
    os.truncate(blob(world, SHARD), 40)
    (finding,) = world.verify("--quick").data["findings"]  # type: ignore[misc]
    assert finding["code"] == "model-file-size"
    assert finding["cause"] == f"{TINY}: {SHARD} is cut short"
    size = len(world.hub.repos[TINY].files[SHARD])
    assert finding["evidence"] == [f"40 bytes there, {size} in models.lock"]
    assert finding["remedy"] == f"kitctl models verify --repair {TINY} --store {world.store}"


def test_an_unchanged_store_is_not_hashed_again_but_fresh_is(world: World) -> None:
    def hashed(*words: str) -> int:
        (model,) = world.verify(*words).data["models"]  # type: ignore[misc]
        return int(model["hashed_bytes"])

    size = sum(map(len, world.hub.repos[TINY].files.values()))
    assert (hashed(), hashed(), hashed("--fresh")) == (size, 0, size)


def test_a_change_that_keeps_the_time_of_writing_is_found(world: World) -> None:
    assert world.verify().code == 0
    seen = blob(world, SHARD).stat()
    poke(blob(world, SHARD), 100_000, b"\0\1\2")
    os.utime(blob(world, SHARD), ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert faults(world.verify().data) == {SHARD: "hash-mismatch"}


def test_an_empty_store_is_not_in_order(empty: World) -> None:
    done = empty.run("verify", "--store", str(empty.store), "--json")
    assert (done.code, done.data["ok"]) == (5, False)


def test_verify_without_a_name_takes_what_the_store_has(world: World) -> None:
    lock = world.root / "kit" / "models.lock"
    lock.write_text(lock.read_text() + lock.read_text().split("version = 1\n")[1].replace(TINY, "org/other"))
    done = world.run("verify", "--store", str(world.store), "--json")
    assert (done.code, [model["name"] for model in done.data["models"]]) == (0, [TINY])  # type: ignore[union-attr]


def test_verify_without_a_name_where_nothing_is_locked(world: World) -> None:
    lock = world.root / "kit" / "models.lock"
    lock.write_text('version = 1\n\n[models."org/big"]\nstate = "reconstructed"\n')
    done = world.run("verify", "--store", str(world.store))
    assert (done.code, done.out) == (0, "nothing is locked, so nothing can be proven\n")
    assert world.run("verify", "org/big", "--store", str(world.store)).code == 5


def test_list_says_what_is_there(world: World) -> None:
    (model,) = world.run("list", "--store", str(world.store), "--json").data["models"]  # type: ignore[misc]
    size = sum(map(len, world.hub.repos[TINY].files.values()))
    assert (model["name"], model["status"], model["size_bytes"], model["missing_bytes"]) == (
        TINY,
        "complete",
        size,
        0,
    )
    blob(world, SHARD).unlink()
    (model,) = world.run("list", "--store", str(world.store), "--json").data["models"]  # type: ignore[misc]
    assert (model["status"], model["missing_bytes"]) == ("partial", len(world.hub.repos[TINY].files[SHARD]))


def test_lock_writes_commit_licence_hashes_and_configuration(empty: World) -> None:
    lock = empty.root / "kit" / "models.lock"
    wanted = lock.read_text()
    lock.write_text("")
    done = empty.run("lock", TINY, "--json")
    date = lock.read_text().split('locked_on = "')[1][:10]
    assert (done.code, lock.read_text().replace(date, "2026-11-29")) == (0, wanted)
    before = lock.stat().st_mtime_ns
    assert (empty.run("lock", TINY).code, lock.stat().st_mtime_ns) == (0, before)


def test_lock_at_a_revision_keeps_it_and_pull_names_it(empty: World) -> None:
    empty.hub.repos[TINY].refs["v1"] = "c" * 40
    assert empty.run("lock", f"{TINY}@v1").code == 0
    assert f'commit = "{"c" * 40}"\nrevision = "v1"' in (empty.root / "kit" / "models.lock").read_text()
    assert empty.pull().code == 0
    assert (empty.repo_folder / "refs" / "v1").read_text() == "c" * 40


@pytest.mark.parametrize(
    ("word", "code", "exit_code"),
    [
        (f"{TINY}@nowhere", "hub-no-revision", 5),
        ("org/none", "hub-no-model", 5),
        ("no name", "bad-repo", 2),
        ("../../etc", "bad-repo", 2),
    ],
)
def test_lock_refuses_what_is_not_there(empty: World, word: str, code: str, exit_code: int) -> None:
    before = (empty.root / "kit" / "models.lock").read_text()
    done = empty.run("lock", word, "--json")
    assert (done.code, json.loads(done.out)["code"]) == (exit_code, code)
    assert (empty.root / "kit" / "models.lock").read_text() == before


def test_lock_refuses_a_repository_that_reaches_outside_its_folder(empty: World) -> None:
    empty.hub.repos[TINY].files["../../escape"] = b"x"
    done = empty.run("lock", TINY, "--json")
    body = json.loads(done.out)
    assert (done.code, body["code"], body["evidence"]) == (5, "unsafe-path", ["../../escape"])


def test_lock_into_the_users_own_file_wins_over_the_kit(empty: World) -> None:
    assert empty.run("lock", TINY, "--user").code == 0
    assert TINY in (empty.root / "c" / "kitctl" / "models.lock").read_text()
    (model,) = empty.run("list", "--json").data["models"]  # type: ignore[misc]
    assert model["is_users"] is True


@pytest.fixture
def own_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mine" / "small"
    for path, data in tiny_files(200_000).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def test_a_folder_of_the_users_is_taken_in_without_a_copy(empty: World, own_folder: Path) -> None:
    done = empty.run("add", str(own_folder), "--json")
    assert (done.code, done.data["name"], done.data["state"]) == (0, "local/small", "local"), done.err
    assert not empty.store.exists()
    verified = empty.run("verify", "local/small", "--json")
    assert (verified.code, verified.data["models"][0]["hashed_bytes"]) == (0, 0)  # type: ignore[index]
    poke(own_folder / SHARD, 100_000, b"\0\1\2")
    verified = empty.run("verify", "local/small", "--json")
    assert (verified.code, faults(verified.data)) == (5, {SHARD: "hash-mismatch"})
    repaired = empty.run("verify", "local/small", "--repair", "--json")
    assert (repaired.code, json.loads(repaired.out)["code"]) == (5, "local-model-broken")


def test_a_folder_is_taken_in_as_the_locked_model_that_it_is(empty: World, own_folder: Path) -> None:
    assert empty.run("add", str(own_folder), "--name", TINY).code == 0
    done = empty.pull()
    assert (done.code, empty.hub.log, done.data["models"][0]["folder"]) == (0, [], str(own_folder))  # type: ignore[index]
    assert empty.run("rm", TINY, "--force").code == 0
    assert own_folder.is_dir()
    (model,) = empty.run("list", "--json").data["models"]  # type: ignore[misc]
    assert model["is_users"] is False


def test_a_folder_that_is_not_the_locked_model_is_refused(empty: World, own_folder: Path) -> None:
    poke(own_folder / SHARD, 100_000, b"\0\1\2")
    done = empty.run("add", str(own_folder), "--name", TINY, "--json")
    body = json.loads(done.out)
    assert (done.code, body["code"]) == (5, "local-model-broken")
    assert body["evidence"] == [f"{SHARD} holds other bytes than models.lock names"]


def test_a_broken_folder_is_not_taken_in(empty: World, own_folder: Path) -> None:
    os.truncate(own_folder / SHARD, 1000)
    (own_folder / "model-00001-of-00003.safetensors").unlink()
    done = empty.run("add", str(own_folder), "--json")
    body = json.loads(done.out)
    assert (done.code, body["code"], len(body["evidence"])) == (5, "local-model-broken", 2)


def test_a_cache_snapshot_is_taken_in_and_mounted_with_its_repository(world: World) -> None:
    done = world.run("add", str(world.repo_folder), "--json")
    assert (done.code, done.data["name"], done.data["state"]) == (0, TINY, "locked"), done.err


def test_no_model_is_named(empty: World, tmp_path: Path) -> None:
    done = empty.run("add", str(tmp_path / "nowhere"), "--json")
    assert (done.code, json.loads(done.out)["code"]) == (2, "no-model")


def test_inspect_reads_the_lock_the_files_a_folder_and_the_hub_alike(world: World, own_folder: Path) -> None:
    here = world.run("inspect", TINY, "--store", str(world.store), "--json").data
    lock = world.run("inspect", TINY, "--store", str(world.root / "none"), "--json").data
    folder = world.run("inspect", str(own_folder), "--json").data
    hub = world.run("inspect", TINY, "--hub", "--json").data
    assert here["facts"] == lock["facts"] == folder["facts"] == hub["facts"]
    assert here["bytes_by_dtype"] == folder["bytes_by_dtype"] == {"U8": 600_000}
    assert (lock["bytes_by_dtype"], hub["bytes_by_dtype"]) == (None, None)
    assert here["kv_bytes_per_token_bf16"] == 2 * 2 * (16 + 16) * 2
    assert here["size_bytes"] == hub["size_bytes"]
    assert not world.hub.requests_for("/storage/")


def test_inspect_tells_the_shape_of_the_reference_models() -> None:
    import subprocess
    import sys

    from model_world import ENTRY_POINT

    kit = str(Path(__file__).parents[2])
    argv = [sys.executable, "-c", ENTRY_POINT, "models", "inspect", "moonshotai/Kimi-K2.6", "--kit", kit]
    done = subprocess.run([*argv, "--store", "/nowhere"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "moonshotai/Kimi-K2.6",
        "  architecture   KimiK25ForConditionalGeneration",
        "  layers         61: 1 dense, 60 with experts, hidden size 7168",
        "  attention      MLA, 64 heads, latent 512 + 64",
        "  experts        384 routed, 8 per token, 1 shared",
        "  quantization   compressed-tensors, 4 bits, groups of 32",
        "  context        262144",
        "  vocabulary     163840",
        "  KV per token   70272 bytes in BF16",
        "  size           595 GB",
        "  facts from     models.lock, reconstructed from public sources",
    ]


def age(path: Path, hours: float) -> None:
    then = time.time() - hours * 3600
    os.utime(path, (then, then))


def leave_behind(world: World) -> dict[str, Path]:
    """Parts, an orphan of Hugging Face's client, and a blob that nothing links to."""
    blobs = world.repo_folder / "blobs"
    made = {
        "old-part": blobs / f"{'1' * 64}.kitctl-part",
        "orphan": blobs / f"{'2' * 64}.0a1b2c3d.incomplete",
        "unlinked": blobs / ("3" * 64),
        "young": blobs / f"{'4' * 64}.deadbeef.incomplete",
    }
    for name, path in made.items():
        path.write_bytes(random_bytes(8192, 1))
        age(path, 0 if name == "young" else 2)
    return made


def test_prune_removes_leftovers_and_keeps_what_is_linked_locked_or_young(world: World) -> None:
    made = leave_behind(world)
    wanted = blob(world, SHARD)
    part = wanted.with_name(f"{wanted.name}.kitctl-part")
    wanted.rename(part)
    age(part, 3)
    seen = world.run("prune", "--store", str(world.store), "--dry-run", "--json").data
    assert all(path.exists() for path in made.values())
    done = world.run("prune", "--store", str(world.store), "--json")
    assert done.data["removed"] == seen["removed"]
    assert {row["path"] for row in done.data["removed"]} == {  # type: ignore[union-attr]
        str(made[name]) for name in ("old-part", "orphan", "unlinked")
    }
    assert (made["young"].exists(), part.exists()) == (True, True)
    assert done.data["freed_bytes"] == 3 * 8192


def test_du_counts_bytes_on_disk_and_names_leftovers(world: World) -> None:
    leave_behind(world)
    (repo,) = world.run("du", "--store", str(world.store), "--json").data["repos"]  # type: ignore[misc]
    assert (repo["name"], repo["is_locked"], repo["leftover_bytes"]) == (TINY, True, 4 * 8192)
    size = sum(map(len, world.hub.repos[TINY].files.values()))
    assert size < repo["size_bytes"] - 4 * 8192 < size + 20 * 4096


def test_rm_refuses_what_the_lock_names_unless_told(world: World) -> None:
    refused = world.run("rm", TINY, "--store", str(world.store), "--json")
    body = json.loads(refused.out)
    assert (refused.code, body["code"], body["evidence"]) == (3, "model-in-use", ["models.lock names it"])
    assert world.holds_all()
    assert world.run("rm", TINY, "--store", str(world.store), "--force").code == 0
    assert not world.repo_folder.exists()


def test_rm_of_one_snapshot_keeps_what_another_links_to(world: World) -> None:
    other = world.repo_folder / "snapshots" / ("e" * 40)
    other.mkdir()
    (other / "config.json").symlink_to(f"../../blobs/{blob(world, 'config.json').name}")
    assert world.run("rm", TINY, "--store", str(world.store), "--force").code == 0
    assert [path.name for path in world.repo_folder.glob("snapshots/*")] == ["e" * 40]
    assert (other / "config.json").read_bytes() == world.hub.repos[TINY].files["config.json"]
    assert len(list(world.repo_folder.glob("blobs/*"))) == 1


def test_rm_of_what_is_not_there_is_refused(empty: World) -> None:
    done = empty.run("rm", "org/none", "--store", str(empty.store), "--json")
    assert (done.code, json.loads(done.out)["code"]) == (2, "not-in-store")


def test_a_wrong_option_is_refused(empty: World) -> None:
    done = empty.pull("--jobs", "0")
    assert done.code == 2 and "--jobs: '0' is no whole number from 1" in done.out + done.err


def test_a_shard_whose_tensors_are_not_those_of_the_index_is_found(empty: World) -> None:
    empty.hub.repos[TINY].files[SHARD] = safetensors({"other": random_bytes(200_000, 5)})
    empty.write_lock()
    assert empty.pull().code == 0
    verified = empty.verify("--quick")
    assert faults(verified.data) == {SHARD: "index-bad"}


def test_blobs_of_another_snapshot_in_the_users_cache_are_linked(empty: World, pulled_once: Path) -> None:
    """The cache holds the same bytes under an older commit: nothing is fetched."""
    shutil.copytree(pulled_once, empty.hf_cache, symlinks=True)
    snapshots = empty.hf_cache / "models--org--tiny" / "snapshots"
    (snapshots / ("a" * 40)).rename(snapshots / ("9" * 40))
    done = empty.pull()
    assert (done.code, empty.holds_all(), empty.hub.log) == (0, True, [])


def test_the_store_is_named_by_its_variable_or_is_hugging_faces_own(empty: World) -> None:
    empty.more_env["KITCTL_STORE"] = str(empty.store)
    assert empty.run("list", "--json").data["store"] == str(empty.store)
    empty.more_env.clear()
    assert empty.run("list", "--json").data["store"] == str(empty.hf_cache)
    empty.more_env["HF_HUB_CACHE"] = "/elsewhere"
    assert empty.run("list", "--json").data["store"] == "/elsewhere"
