"""The whole way on the real engine: from a bundle to a served completion on a host that has no network at all."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from airgap.offline_host import OfflineHost, running_offline_host
from kitctl_process import KitUser, new_user

pytestmark = [pytest.mark.docker, pytest.mark.slow]

ASK = """
import json, sys, urllib.request
body = json.dumps({"model": "demo", "messages": [{"role": "user", "content": "Does this stack answer?"}]}).encode()
request = urllib.request.Request(sys.argv[1] + "/v1/chat/completions", body, {"Content-Type": "application/json"})
print(json.load(urllib.request.urlopen(request, timeout=60))["choices"][0]["message"]["content"])
"""


@pytest.fixture
def bundle(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A bundle of ``cpu-demo`` with the real image, and its digest."""
    with new_user(tmp_path / "sender") as user:
        user.home.mkdir()
        built = user.run("build", "--stage", "cpu", "--no-smoke", timeout_s=1800)
        assert built.returncode == 0, built.stderr
        folder = tmp_path / "bundle"
        done = user.run(
            "bundle", "export", "cpu-demo", "-o", str(folder), "--part-size", "1G", "--json", timeout_s=900
        )
        assert done.returncode == 0, done.stderr
        yield folder, json.loads(done.stdout)["digest"]
    shutil.rmtree(folder)


@pytest.fixture
def offline() -> Iterator[OfflineHost]:
    with running_offline_host() as host:
        yield host


def test_a_bundle_serves_where_there_is_no_network(
    bundle: tuple[Path, str], offline: OfflineHost, tmp_path: Path
) -> None:
    folder, digest = bundle
    links = {link["ifname"] for link in json.loads(offline.run(["ip", "-j", "link"]).stdout)}
    routes = json.loads(offline.run(["ip", "-j", "route"]).stdout)
    assert links == {"lo", "docker0"}
    assert [route["dst"] for route in routes if route["dst"] == "default" or "gateway" in route] == []
    home = tmp_path / "receiver"
    home.mkdir()
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "DOCKER_HOST": offline.docker_host}
    installed = offline.run(
        ["sh", str(folder / "kit" / "install.sh")], env=env | {"PYTHON": sys.executable}, cwd=home
    )
    assert installed.returncode == 0, installed.stderr
    own, user = installed.stdout.strip(), KitUser(home=home, name="airgap", port=30556)
    steps = (
        ("bundle", "import", str(folder), "--digest", digest),
        user.up("--no-build", "--no-pull"),
        ("verify", "cpu-demo"),
    )
    for words in steps:
        done = offline.run([own, *words], env=env, cwd=home, timeout=600)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    said = offline.run([sys.executable, "-c", ASK, "http://127.0.0.1:30556"], cwd=home)
    assert said.stdout.strip() == "Yes: the engine is up, and this sentence was made by it."
    assert offline.run([own, "down", "cpu-demo", "--name", user.name], env=env, cwd=home).returncode == 0
