"""``kitctl bundle`` on real engines: carried, cut off and gone on with, refused when damaged, served without a net."""

from __future__ import annotations

import io
import json
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from airgap.offline_host import OfflineHost, running_offline_host
from kitctl_process import KIT, KitUser, docker, new_user
from model_world import CONFIG, random_bytes, safetensors
from tiny_kit import TinyKit, tiny_kit

from kitctl.plan.planner import cache_volume_prefix

pytestmark = pytest.mark.docker
STACK = "summary: mine\nuses: [small]\nmodel: org/local\n"
PART = "image: {stage: cpu}\nengine: {context_length: 512}\nserve: {model_name: mine}\n"


@pytest.fixture(scope="module", params=["containerd", "classic"])
def offline(request: pytest.FixtureRequest) -> Iterator[OfflineHost]:
    """A host without network, with either kind of image store."""
    with running_offline_host(containerd_store=request.param == "containerd") as host:
        yield host


@dataclass(frozen=True, kw_only=True)
class Sender:
    """The side with a network: its kit, its user, and a bundle of the stacks ``mine`` and ``cpu-demo``."""

    kit: TinyKit
    user: KitUser
    image_id: str
    bundle: Path
    digest: str


@pytest.fixture(scope="module")
def sender(tmp_path_factory: pytest.TempPathFactory, stub: str) -> Iterator[Sender]:
    home = tmp_path_factory.mktemp("sender")
    with tiny_kit(home) as kit, new_user(home, KITCTL_KIT=str(kit.folder)) as user:
        image_id = kit.build(stub)
        model = home / "model"
        model.mkdir()
        (model / "config.json").write_text(json.dumps(CONFIG))
        (model / "model.safetensors").write_bytes(safetensors({"layer": random_bytes(3_000_000, 7)}))
        assert user.run("models", "add", str(model), "--name", "org/local").returncode == 0
        user.write_config("stacks/mine.yaml", STACK)
        user.write_config("parts/small.yaml", PART)
        bundle = home / "bundle"
        body = user.json("bundle", "export", "mine", "cpu-demo", "-o", str(bundle), "--part-size", "8M")
        yield Sender(kit=kit, user=user, image_id=image_id, bundle=bundle, digest=body["digest"])


def receiver(host: OfflineHost, sender: Sender, home: Path) -> KitUser:
    """A user with empty folders on the host without network, with the sender's kit."""
    home.mkdir(exist_ok=True)
    extra = {"KITCTL_KIT": str(sender.kit.folder), "DOCKER_HOST": host.docker_host}
    return KitUser(home=home, name="airgap", port=30555, extra=extra)


def kitctl(host: OfflineHost, user: KitUser, *words: str) -> subprocess.CompletedProcess[str]:
    return host.run([sys.executable, "-m", "kitctl", *words], env=user.env, cwd=user.home)


def taken(host: OfflineHost, user: KitUser, sender: Sender) -> list[str]:
    """What an import that was refused must not leave."""
    images = host.docker("images", "--quiet", "--filter", f"reference={sender.kit.reference}").split()
    files = [str(path) for path in (user.home / "store").rglob("*") if path.is_file()]
    config = [str(path) for path in (user.home / "config").rglob("*") if path.is_file()]
    records = [str(path) for path in (user.state / "images").rglob("*") if path.is_file()]
    return [*images, *files, *config, *records]


def test_the_export_is_a_contract_and_is_not_repeated(sender: Sender) -> None:
    body = sender.user.json(
        "bundle", "export", "mine", "cpu-demo", "-o", str(sender.bundle), "--part-size", "8M"
    )
    assert (body["schema"], body["written_bytes"]) == ("kitctl.bundle-export/1", 0)
    assert (body["stacks"], body["models"]) == (["mine", "cpu-demo"], ["org/local"])
    assert body["images"] == [sender.kit.reference]
    parts = sorted((sender.bundle / "parts").iterdir())
    assert len(parts) == body["parts"] > 3
    assert {part.stat().st_size for part in parts[:-1]} == {8_000_000}
    assert not (sender.bundle / "export.journal").exists()
    verified = sender.user.json("bundle", "verify", str(sender.bundle), "--digest", sender.digest)
    assert (verified["ok"], verified["digest"]) == (True, sender.digest)


def test_another_bundle_is_not_written_over_it(sender: Sender) -> None:
    done = sender.user.run("bundle", "export", "mine", "-o", str(sender.bundle))
    assert (done.returncode, "holds another bundle (bundle-exists)" in done.stderr) == (3, True)


def test_a_damaged_bundle_changes_nothing(offline: OfflineHost, sender: Sender, tmp_path: Path) -> None:
    user = receiver(offline, sender, tmp_path)
    copy = tmp_path / "bundle"
    shutil.copytree(sender.bundle, copy)
    part = sorted((copy / "parts").iterdir())[1]
    raw = bytearray(part.read_bytes())
    raw[1234] ^= 4
    part.write_bytes(raw)
    done = kitctl(offline, user, "bundle", "import", str(copy))
    assert done.returncode == 5
    assert f"parts/{part.name} holds other bytes" in done.stderr
    assert taken(offline, user, sender) == []
    part.unlink()
    gone = kitctl(offline, user, "bundle", "import", str(copy))
    assert (gone.returncode, f"lacks parts/{part.name}" in gone.stderr) == (5, True)
    other = kitctl(offline, user, "bundle", "import", str(sender.bundle), "--digest", "0" * 64)
    assert (other.returncode, "(bundle-other)" in other.stderr) == (5, True)
    assert taken(offline, user, sender) == []


ROT = """
import sys
from pathlib import Path
from kitctl.edge.bundle_images import adopt_image
from kitctl.edge.bundle_reader import Objects, open_bundle, prove_bundle
from kitctl.errors import KitError
bundle = open_bundle(sys.argv[1])
prove_bundle(bundle, came=lambda count: None)
for part in Path(sys.argv[1]).glob("parts/*"):
    part.write_bytes(bytes(part.stat().st_size))
try:
    adopt_image(bundle.manifest.images[0], Objects(bundle, ()), load=True)
except KitError as wrong:
    print(wrong.code)
"""


def test_a_layer_that_rots_after_the_proof_makes_no_image(
    offline: OfflineHost, sender: Sender, tmp_path: Path
) -> None:
    user, copy = receiver(offline, sender, tmp_path / "there"), tmp_path / "bundle"
    shutil.copytree(sender.bundle, copy)
    done = offline.run([sys.executable, "-c", ROT, str(copy)], env=user.env, cwd=KIT)
    assert done.stdout.strip() == "bundle-damaged", done.stderr
    assert taken(offline, user, sender) == []


def test_a_full_disk_is_told_before_anything_is_written(
    offline: OfflineHost, sender: Sender, tmp_path: Path
) -> None:
    user = receiver(offline, sender, tmp_path)
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)], check=True)
    try:
        done = kitctl(offline, user, "bundle", "import", str(sender.bundle), "--store", str(small / "store"))
        assert (done.returncode, "(disk-full)" in done.stderr) == (3, True)
        assert not (small / "store").exists()
    finally:
        subprocess.run(["umount", str(small)], check=True)
    assert taken(offline, user, sender) == []


def test_what_came_serves_without_network(offline: OfflineHost, sender: Sender, tmp_path: Path) -> None:
    """Imported twice, up, proven; another image under the name is refused."""
    user = receiver(offline, sender, tmp_path)
    words = ("bundle", "import", str(sender.bundle), "--digest", sender.digest, "--json")
    first, second = (json.loads(kitctl(offline, user, *words).stdout) for _ in range(2))
    assert first["images"] == [{"reference": sender.kit.reference, "loaded": True}]
    assert first["models"] == [{"name": "org/local", "files_written": 2}]
    assert {Path(path).name for path in first["config"]} == {"mine.yaml", "small.yaml", "models.lock"}
    assert (second["images"][0]["loaded"], second["written_bytes"], second["config"]) == (False, 0, [])
    verified = kitctl(offline, user, "verify", "mine", "--only", "image", "--only", "model", "--deep")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    up = kitctl(offline, user, *user.up("--no-build", "--no-pull", "--json", stack="mine"))
    assert up.returncode == 0, up.stdout + up.stderr
    assert json.loads(up.stdout)["outcome"] == "ready"
    assert kitctl(offline, user, "down", "mine", "--name", user.name).returncode == 0
    replace_image(offline, sender.kit.reference)
    refused = kitctl(offline, user, *user.up("--no-build", "--no-pull", stack="mine"))
    assert (refused.returncode, "(image-not-recorded)" in refused.stderr) == (3, True)
    assert kitctl(offline, user, "verify", "mine", "--only", "image").returncode == 5
    offline.docker("image", "rm", "--force", sender.kit.reference)


def replace_image(host: OfflineHost, reference: str) -> None:
    """Another image with the same labels under the same name."""
    container = host.docker("create", reference)
    host.docker("commit", "--message", "changed", container, reference)
    host.docker("rm", container)


def test_a_bundle_of_another_kit_is_refused(offline: OfflineHost, sender: Sender, tmp_path: Path) -> None:
    user = receiver(offline, sender, tmp_path)
    kit = tmp_path / "kit"
    shutil.copytree(sender.kit.folder, kit)
    stack = kit / "compose" / "stacks" / "cpu-demo.yaml"
    stack.write_text(stack.read_text().replace("image: {stage: cpu}", "image: {stage: cpu, release: 0.5.23}"))
    done = kitctl(offline, user, "bundle", "import", str(sender.bundle), "--kit", str(kit))
    assert (done.returncode, "(bundle-other-kit)" in done.stderr) == (3, True)
    assert f"do:   use the bundle's own kit: sh {sender.bundle}/kit/install.sh" in done.stderr
    assert taken(offline, user, sender) == []


def test_files_of_the_users_own_are_not_replaced_unasked(
    offline: OfflineHost, sender: Sender, tmp_path: Path
) -> None:
    user = receiver(offline, sender, tmp_path)
    mine = user.write_config("stacks/mine.yaml", "summary: other\nmodel: kitctl/demo\n")
    done = kitctl(offline, user, "bundle", "import", str(sender.bundle))
    assert (done.returncode, "(bundle-config-differs)" in done.stderr) == (3, True)
    assert mine.read_text().startswith("summary: other")
    again = kitctl(offline, user, "bundle", "import", str(sender.bundle), "--replace-config")
    assert again.returncode == 0, again.stderr
    assert mine.read_text() == STACK
    offline.docker("image", "rm", "--force", sender.kit.reference)


def test_a_delta_carries_what_is_new(offline: OfflineHost, sender: Sender, stub: str, tmp_path: Path) -> None:
    user, delta = receiver(offline, sender, tmp_path), tmp_path / "delta"
    sender.kit.build(stub, content="two")
    try:
        words = ("bundle", "export", "mine", "-o", str(delta), "--since", str(sender.bundle), "--no-kit")
        body = sender.user.json(*words)
    finally:
        sender.kit.build(stub)
    assert body["size_bytes"] < 100_000 < body["in_older_bundle_bytes"]
    alone = kitctl(offline, user, "bundle", "import", str(delta))
    assert (alone.returncode, "(bundle-needs-base)" in alone.stderr) == (5, True)
    assert taken(offline, user, sender) == []
    both = kitctl(offline, user, "bundle", "import", str(delta), "--base", str(sender.bundle))
    assert both.returncode == 0, both.stderr
    up = kitctl(offline, user, *user.up("--no-build", "--no-pull", stack="mine"))
    assert up.returncode == 0, up.stderr
    assert kitctl(offline, user, "down", "mine", "--name", user.name).returncode == 0
    offline.docker("image", "rm", "--force", sender.kit.reference)


def test_an_export_that_was_killed_goes_on(sender: Sender, tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    words = ("bundle", "export", "mine", "cpu-demo", "-o", str(folder), "--part-size", "8M", "--no-kit")
    running = sender.user.start(*words)
    deadline = time.monotonic() + 60
    journal = folder / "export.journal"
    while not (journal.exists() and '"object"' in journal.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    running.process.send_signal(signal.SIGKILL)
    running.process.communicate()
    broken = sender.user.run("bundle", "verify", str(folder))
    assert (broken.returncode, "(bundle-unfinished)" in broken.stderr) == (5, True)
    other = sender.user.run("bundle", "export", "cpu-demo", "-o", str(folder), "--no-kit")
    assert (other.returncode, "(bundle-other-export)" in other.stderr) == (3, True)
    again = sender.user.run(*words)
    assert (again.returncode, "going on behind" in again.stderr) == (0, True), again.stderr
    assert sender.user.json("bundle", "verify", str(folder))["ok"]


def peak_rss_bytes(user: KitUser, words: tuple[str, ...]) -> int:
    """The most memory that ``kitctl WORDS`` held at once."""
    code = (
        "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL); "
        "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    argv = [sys.executable, "-c", code, sys.executable, "-m", "kitctl", *words]
    done = subprocess.run(argv, env=user.env, cwd=user.home, capture_output=True, text=True, check=True)
    code_text, kib = done.stdout.split()
    assert code_text == "0", done.stderr
    return int(kib) * 1024


def test_a_large_model_takes_little_memory_and_a_killed_import_goes_on(
    sender: Sender, stub: str, tmp_path: Path
) -> None:
    """600 MB go in and out with less than a third of that in memory; killed midway, nothing counts as there."""
    size, own = 600_000_000, sender.user
    model = tmp_path / "large"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(CONFIG))
    row = {"layer": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    head = json.dumps(row).encode()
    with (model / "model.safetensors").open("wb") as weights:
        weights.write(len(head).to_bytes(8, "little") + head)
        weights.truncate(8 + len(head) + size)
    assert own.run("models", "add", str(model), "--name", "org/large").returncode == 0
    own.write_config("stacks/large.yaml", "summary: large\nmodel: org/large\nimage: {stage: cpu}\n")
    folder = tmp_path / "bundle"
    words = (
        "bundle",
        "export",
        "large",
        "--image",
        stub,
        "-o",
        str(folder),
        "--no-kit",
        "--part-size",
        "250M",
    )
    assert peak_rss_bytes(own, words) < size // 3
    with new_user(tmp_path / "there", KITCTL_KIT=str(sender.kit.folder)) as user:
        user.home.mkdir()
        running = user.start("bundle", "import", str(folder))
        deadline = time.monotonic() + 60
        while not list((user.home / "store").rglob("*.kitctl-part")):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        running.process.send_signal(signal.SIGKILL)
        running.process.communicate()
        snapshots = [path for path in (user.home / "store").rglob("snapshots/*/*")]
        assert (snapshots, list((user.home / "config").rglob("*.yaml"))) == ([], [])
        assert peak_rss_bytes(user, ("bundle", "import", str(folder))) < size // 3
        assert user.json("verify", "large", "--only", "model", "--deep")["ok"]
        assert not list((user.home / "store").rglob("*.kitctl-part"))


EXTRA = """
services:
  extra:
    init: true
x-kitctl:
  summary: an add-on
  images: {extra: thing}
"""


def test_an_add_on_comes_with_its_images(
    offline: OfflineHost, sender: Sender, stub: str, tmp_path: Path
) -> None:
    """The user's own overlay, and the image that it names, by digest where the engine keeps digests."""
    digest = docker("image", "inspect", "--format", "{{.Id}}", stub)
    user = receiver(offline, sender, tmp_path / "there")
    keeps = "io.containerd" in offline.docker("info", "--format", "{{.DriverStatus}}")
    pinned = f"  digest: {digest}\n" if keeps else ""
    with new_user(tmp_path, KITCTL_KIT=str(sender.kit.folder)) as own:
        own.write_config("overlays/extra.yaml", EXTRA)
        own.write_config("addon-images.yaml", f"thing:\n  reference: {stub}\n{pinned}")
        folder = tmp_path / "bundle"
        words = ("bundle", "export", "cpu-demo", "--add", "extra", "-o", str(folder), "--no-kit")
        body = own.json(*words)
    assert body["images"] == [sender.kit.reference, stub]
    done = kitctl(offline, user, "bundle", "import", str(folder))
    assert done.returncode == 0, done.stderr
    planned = json.loads(kitctl(offline, user, "plan", "cpu-demo", "--add", "extra", "--json").stdout)
    codes = {finding["code"] for finding in planned["findings"]}
    assert ("addon-image-missing" in codes, "addon-image-unlocked" in codes) == (False, not keeps)
    assert planned["addon_services"][0]["image"].endswith(digest if keeps else stub)
    for reference in (stub, sender.kit.reference):
        offline.docker("image", "rm", "--force", reference)


KERNELS = {"ops/kernel.so": b"\x7fELF" * 4000, "ops/build.ninja": b"rule cuda\n"}


def send_kernels(volume: str, image: str) -> None:
    """Compiled kernels as an engine leaves them in its cache volume."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in {"ops": None, **KERNELS}.items():
            info = tarfile.TarInfo(f"cache/{name}")
            info.type, info.mode, info.mtime = tarfile.DIRTYPE, 0o755, 1_700_000_000
            if data is not None:
                info.type, info.size, info.mode = tarfile.REGTYPE, len(data), 0o640
            archive.addfile(info, io.BytesIO(data or b""))
    container = docker("create", "--volume", f"{volume}:/cache", image)
    subprocess.run(["docker", "cp", "-", f"{container}:/"], input=stream.getvalue(), check=True)
    docker("rm", container)


def kernels_of(host: OfflineHost, volume: str, image: str) -> dict[str, tuple[bytes, int, float]]:
    """Bytes, mode and time stamp of each file in the volume."""
    container = host.docker("create", "--volume", f"{volume}:/cache", image)
    words = ["docker", "--host", host.docker_host, "cp", f"{container}:/cache", "-"]
    raw = subprocess.run(words, capture_output=True, check=True).stdout
    host.docker("rm", container)
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        files = {one.name.removeprefix("cache/"): (archive.extractfile(one), one) for one in archive}
        return {name: (file.read(), one.mode, one.mtime) for name, (file, one) in files.items() if file}


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A bundle with a cache, and the volume that it came from."""

    bundle: Path
    volume: str
    body: dict[str, Any]


@contextmanager
def kernels_here(sender: Sender) -> Iterator[str]:
    """The cache volume of the sender's image, filled, as long as the block runs; its name."""
    request = sender.kit.request
    volume = f"{cache_volume_prefix(request.pins_hash, request.stage)}cpu"
    send_kernels(volume, sender.kit.reference)
    try:
        yield volume
    finally:
        docker("volume", "rm", volume)


@pytest.fixture(scope="module")
def compiled(sender: Sender, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    folder = tmp_path_factory.mktemp("compiled") / "bundle"
    with kernels_here(sender) as volume:
        body = sender.user.json("bundle", "export", "cpu-demo", "-o", str(folder), "--no-kit")
    return Compiled(bundle=folder, volume=volume, body=body)


def import_caches(host: OfflineHost, user: KitUser, bundle: Path) -> list[dict[str, Any]]:
    done = kitctl(host, user, "bundle", "import", str(bundle), "--json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["caches"]
    return found


def test_compiled_kernels_come_along(
    offline: OfflineHost, sender: Sender, compiled: Compiled, tmp_path: Path
) -> None:
    """Filled once, with label, mode and time stamp; never over content, never into another image's."""
    user, volume, image = receiver(offline, sender, tmp_path), compiled.volume, sender.kit.reference
    size = sum(len(data) for data in KERNELS.values())
    assert compiled.body["caches"] == [{"volume": volume, "image": image, "files": 2, "size_bytes": size}]
    filled = {"volume": volume, "filled": True, "detail": "filled with 2 files"}
    assert import_caches(offline, user, compiled.bundle) == [filled]
    assert kernels_of(offline, volume, image) == {p: (d, 0o640, 1_700_000_000) for p, d in KERNELS.items()}
    labels = json.loads(offline.docker("volume", "inspect", "--format", "{{json .Labels}}", volume))
    ids = {labels["io.kitctl.cache.image"], labels["io.kitctl.cache.manifest"]}
    assert offline.docker("image", "inspect", "--format", "{{.Id}}", image) in ids
    up = kitctl(offline, user, *user.up("--no-build", "--no-pull"))
    assert up.returncode == 0, up.stderr
    assert kitctl(offline, user, "down", "cpu-demo", "--name", user.name).returncode == 0
    assert import_caches(offline, user, compiled.bundle)[0]["detail"] == "left as it is, it has content"
    offline.docker("volume", "rm", volume)
    offline.docker("volume", "create", "--label", f"io.kitctl.cache.image=sha256:{'0' * 64}", volume)
    assert import_caches(offline, user, compiled.bundle) == [filled]
    offline.docker("volume", "rm", volume)
    offline.docker("image", "rm", "--force", image)


def test_the_cache_of_another_image_stays_as_it_is(
    offline: OfflineHost, sender: Sender, compiled: Compiled, tmp_path: Path
) -> None:
    user, volume, image = receiver(offline, sender, tmp_path), compiled.volume, sender.kit.reference
    import_caches(offline, user, compiled.bundle)
    offline.docker("volume", "rm", volume)
    offline.docker("volume", "create", "--label", f"io.kitctl.cache.image=sha256:{'0' * 64}", volume)
    container = offline.docker("create", "--volume", f"{volume}:/cache", image)
    (tmp_path / "other.so").write_text("of another image")
    offline.docker("cp", str(tmp_path / "other.so"), f"{container}:/cache/other.so")
    offline.docker("rm", container)
    (kept,) = import_caches(offline, user, compiled.bundle)
    assert kept["detail"].startswith("left as it is, the cache of another image: docker volume rm ")
    assert set(kernels_of(offline, volume, image)) == {"other.so"}
    exported = kitctl(offline, user, "bundle", "export", "cpu-demo", "-o", str(tmp_path / "b"), "--no-kit")
    assert exported.returncode == 0, exported.stderr
    assert f"{volume} is the cache of another image than {image}: not carried" in exported.stderr
    assert "no cache of compiled kernels: no volume of these images here holds one" in exported.stdout
    offline.docker("volume", "rm", volume)
    offline.docker("image", "rm", "--force", image)


def test_a_half_filled_cache_is_not_used_and_done_anew(
    offline: OfflineHost, sender: Sender, compiled: Compiled, tmp_path: Path
) -> None:
    """What a killed import leaves: a part of the files, and the container by which it is known."""
    user, volume, image = receiver(offline, sender, tmp_path), compiled.volume, sender.kit.reference
    import_caches(offline, user, compiled.bundle)
    offline.docker("volume", "rm", volume)
    mark = ("--label", f"io.kitctl.cache-fill={volume}", "--volume", f"{volume}:/cache")
    half = offline.docker("create", *mark, image)
    (tmp_path / "half.so").write_text("half")
    offline.docker("cp", str(tmp_path / "half.so"), f"{half}:/cache/half.so")
    up = kitctl(offline, user, *user.up("--no-build", "--no-pull"))
    assert (up.returncode, "(cache-half-filled)" in up.stderr) == (3, True), up.stderr
    used = offline.docker("create", "--volume", f"{volume}:/cache", image)
    refused = kitctl(offline, user, "bundle", "import", str(compiled.bundle))
    assert (refused.returncode, "(cache-in-use)" in refused.stderr) == (3, True), refused.stderr
    offline.docker("rm", used)
    assert import_caches(offline, user, compiled.bundle)[0]["filled"]
    assert set(kernels_of(offline, volume, image)) == set(KERNELS)
    offline.docker("volume", "rm", volume)
    offline.docker("image", "rm", "--force", image)


def test_a_delta_leaves_out_kernels_that_the_older_bundle_holds(
    offline: OfflineHost, sender: Sender, compiled: Compiled, tmp_path: Path
) -> None:
    user, delta = receiver(offline, sender, tmp_path), tmp_path / "delta"
    words = ("bundle", "export", "cpu-demo", "-o", str(delta), "--since", str(compiled.bundle), "--no-kit")
    with kernels_here(sender):
        body = sender.user.json(*words)
    assert (body["size_bytes"] < 100_000, body["caches"]) == (True, compiled.body["caches"])
    held = b"".join(part.read_bytes() for part in (delta / "parts").iterdir())
    assert KERNELS["ops/kernel.so"] not in held
    import_caches(offline, user, compiled.bundle)
    offline.docker("volume", "rm", compiled.volume)
    alone = kitctl(offline, user, "bundle", "import", str(delta))
    assert (alone.returncode, "(bundle-needs-base)" in alone.stderr) == (5, True)
    both = kitctl(offline, user, "bundle", "import", str(delta), "--base", str(compiled.bundle))
    assert (both.returncode, f"cache {compiled.volume}: filled with 2 files" in both.stdout) == (0, True)
    offline.docker("volume", "rm", compiled.volume)
    offline.docker("image", "rm", "--force", sender.kit.reference)


def test_caches_are_left_out_when_asked(sender: Sender, compiled: Compiled, tmp_path: Path) -> None:
    """The bundle with them says which; an unsafe volume is refused before anything is written."""
    folder = tmp_path / "bundle"
    words = ("bundle", "export", "cpu-demo", "-o", str(folder), "--no-kit")
    with kernels_here(sender) as volume:
        docker("run", "--rm", "--volume", f"{volume}:/cache", "--entrypoint", "mkfifo", sender.kit.reference,
               "/cache/pipe")  # fmt: skip
        refused = sender.user.run(*words)
        assert (refused.returncode, "(cache-unsafe)" in refused.stderr) == (3, True)
        assert not folder.exists()
        without = sender.user.run(*words, "--no-caches")
    assert without.returncode == 0, without.stderr
    assert "no caches of compiled kernels (--no-caches)" in without.stdout
    assert sender.user.json("bundle", "verify", str(folder))["caches"] == []
    assert sender.user.json("bundle", "verify", str(compiled.bundle))["caches"] == [compiled.volume]


def test_what_is_not_here_is_not_exported(sender: Sender, tmp_path: Path) -> None:
    words = ("bundle", "export", "-o", str(tmp_path / "b"))
    absent = sender.user.run(*words, "cpu-demo", "--image", "nowhere:1")
    assert (absent.returncode, "(image-missing)" in absent.stderr) == (3, True)
    unlocked = sender.user.run(*words, "ep4", "--image", sender.kit.reference)
    assert (unlocked.returncode, "(model-unlocked)" in unlocked.stderr) == (5, True)
    assert not (tmp_path / "b").exists()


def test_kitctl_comes_along(sender: Sender, tmp_path: Path) -> None:
    """The bundle's own kitctl, installed without network, is proven by its RECORD and reads its own bundle."""
    with running_offline_host() as host:
        venv = tmp_path / "venv"
        script = sender.bundle / "kit" / "install.sh"
        env = {"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(tmp_path), "PYTHON": sys.executable}
        done = host.run(["sh", str(script), str(venv)], env=env, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        own = done.stdout.strip()
        for words in (["verify", "--only", "kit"], ["bundle", "verify", str(sender.bundle)], ["stacks"]):
            ran = host.run([own, *words], env=env | {"DOCKER_HOST": host.docker_host}, cwd=tmp_path)
            assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "tp8-eager" in ran.stdout
