"""``kitctl models pull`` as a real child process against a real hub: every fault, and what it leaves behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hubserver import Hub, Repo
from model_world import TINY, World, random_bytes, safetensors, tiny_repo

MB = 1024**2
SHARD = "model-00002-of-00003.safetensors"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Hub({TINY: tiny_repo()}) as hub:
        made = World(tmp_path, hub)
        made.write_lock()
        yield made
        made.end_started()


@pytest.fixture
def big_world(tmp_path: Path) -> Iterator[World]:
    """One file of 24 MB."""
    with Hub({TINY: Repo({"model.safetensors": safetensors({"a": random_bytes(24 * MB, 3)})})}) as hub:
        made = World(tmp_path, hub)
        made.write_lock()
        yield made
        made.end_started()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Mounts a file system of the given size in MB where the store will be."""
    store = tmp_path / "store"

    def mount(size_mb: int) -> Path:
        store.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "kitctl-test", store], check=True)
        return store

    yield mount
    subprocess.run(["umount", "-l", store], check=False)


def part_of(world: World) -> Path:
    return next(iter(world.repo_folder.glob("blobs/*.kitctl-part")), world.repo_folder / "none")


def wait_for_part(world: World, size: int) -> None:
    deadline = time.monotonic() + 60
    while not part_of(world).exists() or part_of(world).stat().st_size < size:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def error_of(out: str) -> tuple[str, int]:
    body = json.loads(out)
    return body["code"], body["exit"]


def test_a_pull_brings_every_file_proven(world: World) -> None:
    done = world.pull()
    assert (done.code, done.err.count("left out")) == (0, 0), done.err
    (model,) = done.data["models"]  # type: ignore[misc]
    assert (
        model["fetched_bytes"] == model["size_bytes"] == sum(map(len, world.hub.repos[TINY].files.values()))
    )
    assert world.holds_all()
    assert world.leftovers() == []
    assert (world.repo_folder / "refs" / "main").read_text() == "a" * 40


def test_every_link_stays_inside_the_repository_so_that_it_mounts_alone(world: World, tmp_path: Path) -> None:
    world.pull()
    moved = tmp_path / "elsewhere"
    shutil.move(world.repo_folder, moved)
    links = [path for path in moved.rglob("*") if path.is_symlink()]
    assert len(links) == len(world.hub.repos[TINY].files)
    assert all(path.resolve().is_relative_to(moved) and path.is_file() for path in links)


def test_pulling_again_asks_the_hub_nothing(world: World) -> None:
    world.pull()
    world.hub.log.clear()
    done = world.pull()
    assert (done.code, world.hub.log) == (0, [])
    assert done.data["models"][0]["fetched_bytes"] == 0  # type: ignore[index]


def test_without_a_name_all_locked_models_are_pulled(world: World) -> None:
    done = world.run("pull", "--store", str(world.store), "--json")
    assert (done.code, world.holds_all()) == (0, True)


def test_files_with_the_same_bytes_are_fetched_once(world: World) -> None:
    repo = world.hub.repos[TINY]
    repo.files["copy.safetensors"] = repo.files[SHARD]
    repo.files["empty"] = b""
    world.write_lock()
    assert (world.pull().code, world.holds_all(), world.leftovers()) == (0, True, [])
    sent = [path for method, path, _ in world.hub.requests_for("/storage/") if method == "GET"]
    assert len(sent) == 3


def test_plain_files_in_a_snapshot_are_kept_as_they_are(world: World) -> None:
    """Caches of hosts without links hold the files themselves."""
    world.pull()
    plain = world.root / "plain"
    shutil.copytree(world.snapshot, plain, symlinks=False)
    shutil.rmtree(world.repo_folder)
    shutil.copytree(plain, world.snapshot)
    (world.snapshot / SHARD).unlink()
    world.hub.bytes_sent.clear()
    assert (world.pull().code, world.holds_all(), world.verify().code) == (0, True, 0)
    assert set(world.hub.bytes_sent) == {SHARD}


def test_an_unlocked_model_is_refused_with_the_command_that_locks_it(world: World) -> None:
    lock = world.root / "kit" / "models.lock"
    lock.write_text(lock.read_text() + '\n[models."org/big"]\nstate = "reconstructed"\n')
    done = world.run("pull", "org/big", "--json")
    body = json.loads(done.out)
    assert (done.code, body["code"], body["remedy"]) == (5, "model-unlocked", "kitctl models lock org/big")


def test_a_connection_cut_at_every_megabyte_ends_whole(world: World) -> None:
    world.hub.switches.cut_every = MB
    assert (world.pull().code, world.holds_all(), world.leftovers()) == (0, True, [])
    assert world.hub.bytes_sent[SHARD] == len(world.hub.repos[TINY].files[SHARD])


def test_kill_9_in_the_middle_loses_nothing_and_leaves_no_orphan(big_world: World) -> None:
    big_world.hub.switches.rate_bytes_per_s = 8 * MB
    child = big_world.start("pull", TINY, "--store", str(big_world.store))
    wait_for_part(big_world, 10 * MB)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    kept = part_of(big_world).stat().st_size
    big_world.hub.switches.rate_bytes_per_s = None
    done = big_world.pull()
    assert (done.code, big_world.holds_all(), big_world.leftovers()) == (0, True, [])
    assert big_world.hub.requests_for("/storage/")[-1][2] == f"bytes={kept}-"
    size = len(big_world.hub.repos[TINY].files["model.safetensors"])
    assert big_world.hub.bytes_sent["model.safetensors"] - size < 8 * MB


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_at_once_and_the_next_pull_goes_on(big_world: World, sent: signal.Signals) -> None:
    big_world.hub.switches.rate_bytes_per_s = 8 * MB
    child = big_world.start("pull", TINY, "--store", str(big_world.store))
    wait_for_part(big_world, 4 * MB)
    begun = time.monotonic()
    child.send_signal(sent)
    child.communicate(timeout=10)
    assert child.returncode == 130
    assert time.monotonic() - begun < 3
    big_world.hub.switches.rate_bytes_per_s = None
    assert (big_world.pull().code, big_world.holds_all(), big_world.leftovers()) == (0, True, [])


def test_wrong_bytes_are_refused_and_the_other_files_kept(world: World) -> None:
    repo = world.hub.repos[TINY]
    repo.sent[SHARD] = repo.files[SHARD][:-1] + b"!"
    done = world.pull()
    assert (done.code, error_of(done.out)) == (5, ("hash-mismatch", 5))
    assert SHARD in json.loads(done.out)["cause"]
    assert not (world.snapshot / SHARD).exists()
    assert world.leftovers() == []
    repo.sent.clear()
    world.hub.log.clear()
    assert (world.pull().code, world.holds_all()) == (0, True)
    assert {path for _, path, _ in world.hub.requests_for("/storage/")} >= {f"/storage/{TINY}/{SHARD}"}
    assert not [path for method, path, _ in world.hub.log if method == "GET" and "00001" in path]


def test_a_file_that_changed_after_the_listing_is_refused(world: World) -> None:
    files = world.hub.repos[TINY].files
    files[SHARD] = safetensors({"layer.1": random_bytes(1_500_000, 99)})
    done = world.pull()
    assert (done.code, error_of(done.out)) == (5, ("file-changed", 5))
    assert json.loads(done.out)["remedy"].startswith(f"kitctl models lock {TINY}")


def test_a_gated_model_is_refused_with_what_to_do(world: World) -> None:
    world.hub.switches.forbid_resolve = True
    done = world.pull()
    body = json.loads(done.out)
    assert (done.code, body["code"]) == (5, "hub-gated")
    assert "accept the conditions" in body["remedy"]
    assert sum(world.hub.bytes_sent.values()) == 0


def test_a_token_is_sent_to_the_hub_and_not_to_the_storage(world: World) -> None:
    world.hub.switches.token = "hf_secret"
    refused = world.pull()
    assert (refused.code, error_of(refused.out)) == (5, ("hub-token", 5))
    world.more_env["HF_TOKEN"] = "hf_secret"
    done = world.pull()
    assert (done.code, world.holds_all()) == (0, True)
    assert "hf_secret" not in done.out + done.err


def test_a_commit_that_is_gone_is_named(world: World) -> None:
    world.hub.repos[TINY].commit = "b" * 40
    assert error_of(world.pull().out) == ("hub-no-revision", 5)


def test_a_busy_hub_is_asked_again_after_the_time_it_names(world: World) -> None:
    world.hub.switches.status_once = [(429, {"Retry-After": "1"}), (503, {"Retry-After": "1"})]
    done = world.pull()
    assert (done.code, world.holds_all()) == (0, True)
    assert done.err.count("asking again in 1 s") == 2


def test_a_hub_that_stays_broken_ends_it(world: World) -> None:
    world.hub.switches.status_always = 500
    assert error_of(world.pull().out) == ("hub-busy", 5)


def test_nobody_answers(world: World) -> None:
    world.more_env["HF_ENDPOINT"] = "http://127.0.0.1:9"
    assert error_of(world.pull().out) == ("hub-unreachable", 5)


def test_offline_with_missing_files_is_refused_and_with_all_files_is_fine(world: World) -> None:
    world.more_env["HF_HUB_OFFLINE"] = "1"
    assert error_of(world.pull().out) == ("hub-offline", 5)
    world.more_env.clear()
    world.pull()
    world.more_env["HF_HUB_OFFLINE"] = "1"
    assert world.pull().code == 0


def test_a_stalled_stream_is_ended_and_goes_on(big_world: World) -> None:
    big_world.hub.switches.stall_after = 2 * MB
    child = big_world.start("pull", TINY, "--store", str(big_world.store), "--stall", "1")
    wait_for_part(big_world, 2 * MB)
    big_world.hub.switches.stall_after = None
    _, err = child.communicate(timeout=60)
    assert (child.returncode, big_world.holds_all()) == (0, True)
    assert "no byte came for 1 s at 2.10 MB" in err


def test_a_disk_too_small_is_refused_before_the_first_byte(
    big_world: World, small_disk: Callable[[int], Path]
) -> None:
    small_disk(20)
    done = big_world.pull()
    body = json.loads(done.out)
    assert (done.code, body["code"]) == (3, "disk-full")
    assert "21.0 MB free, 26.4 MB are needed: 5.45 MB too little" in body["cause"]
    assert (big_world.hub.log, big_world.leftovers()) == ([], [])


def test_two_models_that_fit_only_one_by_one_are_refused_before_the_first_byte(
    big_world: World, small_disk: Callable[[int], Path]
) -> None:
    lock = big_world.root / "kit" / "models.lock"
    lock.write_text(lock.read_text() + lock.read_text().split("version = 1\n")[1].replace(TINY, "org/other"))
    small_disk(40)
    done = big_world.run("pull", "--store", str(big_world.store), "--json")
    body = json.loads(done.out)
    assert (done.code, body["code"], big_world.hub.log) == (3, "disk-full", [])
    assert body["evidence"] == [f"2 models in {big_world.store}: 50.3 MB"]


def test_what_the_xet_client_may_keep_counts_on_its_own_disk(
    big_world: World, small_disk: Callable[[int], Path]
) -> None:
    big_world.more_env |= {"HF_XET_CACHE": str(small_disk(8)), "HF_XET_CHUNK_CACHE_SIZE_BYTES": "1000000000"}
    store = big_world.root / "roomy"
    done = big_world.run("pull", "--store", str(store), "--json")
    body = json.loads(done.out)
    assert (done.code, body["code"], big_world.hub.log) == (3, "disk-full", [])
    assert body["evidence"] == [f"the Xet client's cache in {big_world.store}: 25.2 MB"]
    del big_world.more_env["HF_XET_CHUNK_CACHE_SIZE_BYTES"]
    assert big_world.run("pull", "--store", str(store), "--json").code == 0


def test_a_disk_that_fills_meanwhile_keeps_what_came(
    big_world: World, small_disk: Callable[[int], Path]
) -> None:
    store = small_disk(32)
    big_world.hub.switches.rate_bytes_per_s = 8 * MB
    child = big_world.start("pull", TINY, "--store", str(store), "--json")
    wait_for_part(big_world, 4 * MB)
    (store / "filler").write_bytes(bytes(16 * MB))
    out, _ = child.communicate(timeout=60)
    assert (child.returncode, error_of(out)) == (5, ("disk-full", 5))
    kept = part_of(big_world).stat().st_size
    assert kept >= 4 * MB
    (store / "filler").unlink()
    big_world.hub.switches.rate_bytes_per_s = None
    assert (big_world.pull().code, big_world.holds_all(), big_world.leftovers()) == (0, True, [])
    assert big_world.hub.requests_for("/storage/")[-1][2] == f"bytes={kept}-"


def test_of_two_pulls_at_once_the_second_is_told_who_holds_it(big_world: World) -> None:
    big_world.hub.switches.rate_bytes_per_s = MB
    child = big_world.start("pull", TINY, "--store", str(big_world.store))
    wait_for_part(big_world, MB)
    refused = big_world.pull()
    big_world.hub.switches.rate_bytes_per_s = 12 * MB
    body = json.loads(refused.out)
    assert (refused.code, body["code"]) == (3, "store-busy")
    assert f"process {child.pid} on " in body["cause"]
    waited = big_world.pull("--wait-lock", "60")
    child.communicate(timeout=60)
    assert (child.returncode, waited.code, big_world.holds_all()) == (0, 0, True)
    assert big_world.hub.bytes_sent["model.safetensors"] == len(
        big_world.hub.repos[TINY].files["model.safetensors"]
    )


def test_a_read_only_store_serves_what_it_has_and_refuses_to_be_filled(
    world: World, small_disk: Callable[[int], Path]
) -> None:
    store = small_disk(32)
    assert world.pull().code == 0
    subprocess.run(["mount", "-o", "remount,ro", store], check=True)
    assert (world.pull().code, world.verify().code) == (0, 0)
    subprocess.run(["mount", "-o", "remount,rw", store], check=True)
    (world.snapshot / SHARD).resolve().unlink()
    subprocess.run(["mount", "-o", "remount,ro", store], check=True)
    assert error_of(world.pull().out) == ("store-unwritable", 3)


def test_root_hands_what_it_fills_to_the_stores_owner(world: World) -> None:
    world.store.mkdir()
    os.chown(world.store, 1234, 1234)
    assert world.pull().code == 0
    owners = {path.lstat().st_uid for path in world.store.rglob("*")}
    assert owners == {1234}
    assert world.verify().data["models"][0]["hashed_bytes"] == 0  # type: ignore[index]


def test_a_symlinked_store_is_filled_where_it_points(world: World, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    world.store.symlink_to(tmp_path / "disk")
    assert (world.pull().code, world.verify().code, world.holds_all()) == (0, 0, True)
    assert (tmp_path / "disk" / "models--org--tiny").is_dir()


def test_the_users_cache_is_linked_and_not_fetched(world: World) -> None:
    fetched = world.python(f"import huggingface_hub as h; h.snapshot_download({TINY!r})")
    assert fetched.code == 0, fetched.err
    world.hub.log.clear()
    done = world.pull()
    assert (done.code, world.holds_all()) == (0, True), done.err
    assert world.hub.log == []
    cached = world.hf_cache / "models--org--tiny" / "snapshots" / ("a" * 40) / SHARD
    assert (world.snapshot / SHARD).stat().st_ino == cached.stat().st_ino
    assert world.verify().data["models"][0]["hashed_bytes"] == 0  # type: ignore[index]


def test_a_cache_on_another_disk_is_copied_and_not_fetched(
    world: World, small_disk: Callable[[int], Path]
) -> None:
    small_disk(32)
    world.python(f"import huggingface_hub as h; h.snapshot_download({TINY!r})")
    world.hub.log.clear()
    done = world.pull()
    assert (done.code, world.holds_all(), world.hub.log) == (0, True, []), done.err


def test_a_damaged_file_of_the_users_cache_is_not_taken(world: World) -> None:
    world.python(f"import huggingface_hub as h; h.snapshot_download({TINY!r})")
    cached = world.hf_cache / "models--org--tiny" / "snapshots" / ("a" * 40) / SHARD
    with cached.open("r+b") as handle:
        handle.seek(1000)
        handle.write(b"!")
    done = world.pull()
    assert (done.code, world.holds_all()) == (0, True)
    assert done.data["models"][0]["fetched_bytes"] == len(world.hub.repos[TINY].files[SHARD])  # type: ignore[index]


def test_what_kitctl_pulled_huggingface_accepts(world: World) -> None:
    world.pull()
    code = f"""
import huggingface_hub as h
path = h.snapshot_download({TINY!r}, cache_dir={str(world.store)!r}, local_files_only=True)
found = h.HfApi().verify_repo_checksums({TINY!r}, cache_dir={str(world.store)!r})
print(path, found.mismatches, found.missing_paths, found.extra_paths, found.checked_count)
seen = h.scan_cache_dir({str(world.store)!r})
print([str(repo.repo_id) for repo in seen.repos], seen.warnings)
"""
    done = world.python(code)
    assert done.code == 0, done.err
    first, second = done.out.splitlines()
    count = len(world.hub.repos[TINY].files)
    assert first == f"{world.snapshot} [] [] [] {count}"
    assert second == "['org/tiny'] []"
    tool = Path(sys.executable).with_name("hf")
    argv = [str(tool), "cache", "verify", TINY, "--cache-dir", str(world.store)]
    verified = subprocess.run(argv, env=world.env, capture_output=True, text=True, check=False)
    assert verified.returncode == 0, verified.stderr + verified.stdout


def test_what_huggingface_pulled_kitctl_accepts(world: World) -> None:
    world.python(
        f"import huggingface_hub as h; h.snapshot_download({TINY!r}, cache_dir={str(world.store)!r})"
    )
    world.hub.log.clear()
    assert world.verify().code == 0
    assert (world.pull().code, world.hub.log) == (0, [])


def xet_upload(world: World, cas: Path) -> None:
    """Put the shards onto a Xet storage in a folder; the hub then names it."""
    world.hub.switches.xet_endpoint = f"local://{cas}"
    repo = world.hub.repos[TINY]
    for name in [path for path in repo.files if path.endswith(".safetensors")]:
        source = world.root / "upload.bin"
        source.write_bytes(repo.files[name])
        code = f"""
import hf_xet
with hf_xet.XetSession().new_upload_commit(endpoint="local://{cas}") as commit:
    sent = commit.start_upload_file({str(source)!r})
print(sent.result().xet_info.hash)
"""
        done = world.python(code)
        assert done.code == 0, done.err
        repo.xet_hashes[name] = done.out.strip()


def test_files_on_xet_storage_come_over_xet(world: World, tmp_path: Path) -> None:
    xet_upload(world, tmp_path / "cas")
    done = world.pull()
    assert (done.code, world.holds_all(), world.leftovers()) == (0, True, []), done.err
    assert [path for method, path, _ in world.hub.requests_for("/storage/") if method == "GET"] == []


def wait_until_stopped(child: subprocess.Popen[str]) -> None:
    """Until every thread has obeyed the SIGSTOP: one that is amid a write finishes it first."""
    threads = Path(f"/proc/{child.pid}/task")
    while any(stat.read_text().rpartition(")")[2].split()[0] != "T" for stat in threads.glob("*/stat")):
        time.sleep(0.01)


def came_and_kept(world: World, child: subprocess.Popen[str]) -> tuple[int, int]:
    """What the stopped child has read since its part began to grow, and what of it is in the part."""
    read = int(Path(f"/proc/{child.pid}/io").read_text().split()[1])
    return read, part_of(world).stat().st_size


def test_kill_9_in_the_middle_of_xet_loses_less_than_64_mb_and_leaves_no_orphan(tmp_path: Path) -> None:
    """The real client on a real storage. Its storage is read with read(2), so the kernel counts what was fetched."""
    size = 300 * MB
    with Hub({TINY: Repo({"model.safetensors": safetensors({"a": random_bytes(size, 4)})})}) as hub:
        world = World(tmp_path, hub)
        world.write_lock()
        xet_upload(world, tmp_path / "cas")
        child = world.start("pull", TINY, "--store", str(world.store))
        deadline = time.monotonic() + 60
        while not part_of(world).exists():
            assert time.monotonic() < deadline
        before, _ = came_and_kept(world, child)
        wait_for_part(world, 48 * MB)
        child.send_signal(signal.SIGSTOP)
        wait_until_stopped(child)
        read, kept = came_and_kept(world, child)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        assert kept < size
        assert read - before - kept < 64_000_000
        done = world.pull()
        assert (done.code, world.holds_all(), world.leftovers()) == (0, True, []), done.err
        (model,) = done.data["models"]  # type: ignore[misc]
        assert model["fetched_bytes"] == model["size_bytes"] - kept
        assert hub.requests_for("/storage/") == []


def test_a_part_is_continued_over_xet(world: World, tmp_path: Path) -> None:
    xet_upload(world, tmp_path / "cas")
    lock = (world.root / "kit" / "models.lock").read_text()
    line = next(line for line in lock.splitlines() if SHARD in line)
    digest = line.split('sha256 = "')[1][:64]
    (world.repo_folder / "blobs").mkdir(parents=True)
    (world.repo_folder / "blobs" / f"{digest}.kitctl-part").write_bytes(
        world.hub.repos[TINY].files[SHARD][: MB + 17]
    )
    assert (world.pull().code, world.holds_all(), world.leftovers()) == (0, True, [])


def test_without_xet_when_the_user_says_so(world: World, tmp_path: Path) -> None:
    xet_upload(world, tmp_path / "cas")
    world.more_env["HF_HUB_DISABLE_XET"] = "1"
    assert (world.pull().code, world.holds_all()) == (0, True)
    assert world.hub.bytes_sent[SHARD] == len(world.hub.repos[TINY].files[SHARD])


def test_a_xet_storage_that_hangs_is_left_for_http(world: World, tmp_path: Path) -> None:
    import socket

    xet_upload(world, tmp_path / "cas")
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        world.hub.switches.xet_endpoint = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        done = world.pull("--stall", "2")
    assert (done.code, world.holds_all()) == (0, True), done.err
    assert "Xet: no byte came for 2 s at 0 B" in done.err


def test_a_store_with_shared_blobs_is_made_mountable(world: World, tmp_path: Path) -> None:
    """huggingface_hub 2.4 keeps Xet files outside the repository's folder: a mount of it alone would dangle."""
    xet_upload(world, tmp_path / "cas")
    world.python(
        f"import huggingface_hub as h; h.snapshot_download({TINY!r}, cache_dir={str(world.store)!r})"
    )
    assert not (world.snapshot / SHARD).resolve().is_relative_to(world.repo_folder)
    verified = world.verify()
    codes = {fault["code"] for fault in verified.data["models"][0]["faults"]}  # type: ignore[index]
    assert (verified.code, codes) == (5, {"link-outside"})
    world.hub.log.clear()
    assert (world.pull().code, world.hub.log, world.holds_all()) == (0, [], True)
    assert (world.snapshot / SHARD).resolve().is_relative_to(world.repo_folder)
    assert world.verify().code == 0
