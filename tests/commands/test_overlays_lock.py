"""``kitctl overlays lock`` against a real registry on loopback."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
from debian_image import import_busybox, unpack
from kitctl_process import KitUser, docker, free_port

pytestmark = pytest.mark.docker


@dataclass(frozen=True)
class Registry:
    """A registry and an image that was pushed to it, with the digest that it answered."""

    reference: str
    digest: str


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Debian's docker-registry; engines speak plain HTTP to registries on loopback."""
    work = tmp_path_factory.mktemp("registry")
    program = unpack("docker-registry", work) / "usr/bin/docker-registry"
    port = free_port()
    config = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(work / "data")}},
        "http": {"addr": f"127.0.0.1:{port}"},
        "log": {"accesslog": {"disabled": True}, "level": "error"},
    }
    (work / "config.yml").write_text(json.dumps(config))
    server = subprocess.Popen([program, "serve", work / "config.yml"], stderr=subprocess.DEVNULL)
    reference = f"127.0.0.1:{port}/tools/busybox:1"
    try:
        wait_for(f"http://127.0.0.1:{port}/v2/")
        import_busybox(reference)
        pushed = docker("push", reference)
        yield Registry(reference, pushed.split("digest: ")[1].split()[0])
    finally:
        subprocess.run(["docker", "rmi", "-f", reference], capture_output=True, check=False)
        server.terminate()
        server.wait(10)


def wait_for(url: str) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            requests.get(url, timeout=2)
            return
        except requests.RequestException:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_the_registrys_digest_is_written_and_then_runs_by_it(kit_user: KitUser, registry: Registry) -> None:
    path = kit_user.write_config(
        "addon-images.yaml", f"# mine\nhaproxy:\n  reference: {registry.reference}\n"
    )
    told = kit_user.json("overlays", "lock", "haproxy")["images"]
    mine = [row for row in told if row["file"] == str(path)]
    assert [(row["name"], row["digest"]) for row in mine] == [("haproxy", registry.digest)]
    assert (
        path.read_text()
        == f"# mine\nhaproxy:\n  reference: {registry.reference}\n  digest: {registry.digest}\n"
    )
    plan = kit_user.json(*kit_user.up("--add", "gateway", "--dry-run"), exit_code=3)["plan"]
    exact = f"{registry.reference.rpartition(':')[0]}@{registry.digest}"
    (service,) = plan["addon_services"]
    assert (service["name"], service["image"], service["is_locked"]) == ("gateway", exact, True)
    assert {"addon-image-unlocked", "addon-image-missing"} & {
        one["code"] for one in plan["findings"]
    } == set()


def test_an_image_that_the_engine_lacks_blocks_with_what_to_pull(kit_user: KitUser, tmp_path: Path) -> None:
    kit_user.write_config("addon-images.yaml", "haproxy: {reference: 'nowhere.invalid/haproxy:9'}\n")
    plan = kit_user.json(*kit_user.up("--add", "gateway", "--dry-run"), exit_code=3)["plan"]
    (missing,) = [one for one in plan["findings"] if one["code"] == "addon-image-missing"]
    assert (missing["severity"], missing["remedy"]) == ("block", "docker pull nowhere.invalid/haproxy:9")


def test_a_registry_that_does_not_answer_writes_nothing(kit_user: KitUser) -> None:
    path = kit_user.write_config("addon-images.yaml", "mine:\n  reference: 127.0.0.1:9/x:1\n")
    before = path.read_text()
    refused = kit_user.run("overlays", "lock", "mine", "--json")
    body = json.loads(refused.stdout)
    assert (refused.returncode, body["code"]) == (5, "registry-refused")
    assert path.read_text() == before


def test_a_name_that_is_not_there_is_answered_with_the_nearest(kit_user: KitUser) -> None:
    refused = kit_user.run("overlays", "lock", "haproxi", "--json")
    body = json.loads(refused.stdout)
    assert (refused.returncode, body["code"], body["evidence"]) == (
        2,
        "unknown-addon-image",
        ["did you mean 'haproxy'?"],
    )
