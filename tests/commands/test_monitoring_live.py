"""The monitoring add-on watches the real engine: Prometheus and the textfile collector as Debian packages them."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from debian_image import import_program, unpack
from kitctl_process import KIT, KitUser, docker, free_port, new_user

pytestmark = [pytest.mark.docker, pytest.mark.slow]
MARK = uuid.uuid4().hex[:8]
PANELS = json.loads((KIT / "compose/addons/dashboard/stack.json").read_text())["panels"]
ELSEWHERE = ("DCGM_", "kitctl_accept_length")
"""What a CPU engine without a drafter does not give."""


@dataclass(frozen=True, kw_only=True)
class Watched:
    """A stack with monitoring: the user who runs it, and Prometheus' address."""

    user: KitUser
    prometheus: str

    def query(self, text: str) -> list[dict[str, Any]]:
        told = requests.get(f"{self.prometheus}/api/v1/query", params={"query": text}, timeout=10).json()
        assert told["status"] == "success", told
        found: list[dict[str, Any]] = told["data"]["result"]
        return found

    def alerts(self) -> dict[str, str]:
        told = requests.get(f"{self.prometheus}/api/v1/alerts", timeout=10).json()
        return {one["labels"]["alertname"]: one["state"] for one in told["data"]["alerts"]}

    def container(self, service: str) -> str:
        (name,) = [one for one in self.user.containers() if f"-{service}-" in one]
        return name


def wait_until(true: Callable[[], bool], *, timeout_s: float = 150.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(1.0)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The entries of addon-images.yaml."""
    made = {
        "prometheus": ("prometheus", "usr/bin/prometheus", "prometheus", "prometheus"),
        "node-exporter": (
            "prometheus-node-exporter",
            "usr/bin/prometheus-node-exporter",
            "node_exporter",
            "",
        ),
    }
    entries = ""
    for name, (package, program, inside, owns) in made.items():
        tag = f"kitctl-test-{name}:{MARK}"
        work = tmp_path_factory.mktemp(name)
        import_program(tag, package=package, program=program, work=work, name=inside, owns=owns)
        entries += f"{name}: {{reference: '{tag}'}}\n"
    yield entries
    docker("rmi", "-f", *(f"kitctl-test-{name}:{MARK}" for name in made))


@pytest.fixture(scope="module")
def watched(images: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with new_user(tmp_path_factory.mktemp("watched")) as user:
        user.write_config("addon-images.yaml", images)
        port = free_port()
        words = ("--add", "monitoring", "--set", f"serve.ports.prometheus={port}")
        done = user.run(*user.up(*words), timeout_s=900)
        assert done.returncode == 0, done.stderr + done.stdout
        assert f"prometheus: http://127.0.0.1:{port}" in done.stdout
        yield Watched(user=user, prometheus=f"http://127.0.0.1:{port}")
    volumes = docker("volume", "ls", "-q", "--filter", f"name={user.name}").split()
    assert [name.rpartition("_")[2] for name in volumes] == ["prometheus"], "measurements outlive the stack"
    docker("volume", "rm", *volumes)


@pytest.fixture(scope="module")
def served(watched: Watched) -> Watched:
    """Some answers were given, and Prometheus has seen two scrapes of them."""

    def ask(number: int) -> int:
        body = {"model": "demo", "messages": [{"role": "user", "content": f"{number}?"}], "max_tokens": 64}
        url = f"http://127.0.0.1:{watched.user.port}/v1/chat/completions"
        return requests.post(url, json={**body, "stream": number % 2 == 0}, timeout=120).status_code

    wait_until(lambda: bool(watched.query('up{job="engine"} == 1')))
    for _ in range(3):
        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(ask, range(8))) == {200}
        time.sleep(15)
    return watched


def test_every_target_answers_and_none_is_missing(served: Watched) -> None:
    wait_until(lambda: len(served.query("up == 1")) == 2)
    assert {one["metric"]["job"] for one in served.query("up")} == {"engine", "kitctl"}


@pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])
def test_every_panel_shows_what_the_engine_gives(panel: dict[str, Any], served: Watched) -> None:
    for target in panel["targets"]:
        found = served.query(target["expr"].replace("$__rate_interval", "1m"))
        assert bool(found) is not any(word in target["expr"] for word in ELSEWHERE), target["expr"]


def test_the_phases_of_the_start_are_there_by_their_names(served: Watched) -> None:
    found = {one["metric"]["phase"]: float(one["value"][1]) for one in served.query("kitctl_phase_seconds")}
    assert {"image", "model", "start", "weights", "kv_cache", "total"} <= set(found)
    assert found["total"] >= found["weights"] > 0
    (outcome,) = served.query("kitctl_run_outcome == 1")
    assert (outcome["metric"]["outcome"], outcome["metric"]["stack"]) == ("ready", "cpu-demo")


def test_all_rules_are_loaded_in_order_and_a_healthy_engine_raises_none(served: Watched) -> None:
    groups = requests.get(f"{served.prometheus}/api/v1/rules", timeout=10).json()["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) == 8
    wait_until(lambda: all(rule["health"] in ("ok", "unknown") for rule in rules))
    assert served.alerts() == {}


def test_promtool_reads_the_live_engine_and_counts_what_was_asked(
    served: Watched, tmp_path_factory: pytest.TempPathFactory
) -> None:
    promtool = unpack("prometheus", tmp_path_factory.mktemp("promtool")) / "usr/bin/promtool"
    ask = [promtool, "query", "instant", "-o", "json", served.prometheus, "sum(sglang:num_requests_total)"]
    told = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
    assert float(json.loads(told)[0]["value"][1]) >= 24


def test_it_is_on_loopback_alone_and_locked_down(served: Watched) -> None:
    for service in ("prometheus", "textfile"):
        found = json.loads(docker("inspect", served.container(service)))[0]
        host, ports = found["HostConfig"], found["NetworkSettings"]["Ports"]
        assert (host["ReadonlyRootfs"], host["CapDrop"], found["Config"]["User"]) == (
            True,
            ["ALL"],
            "65534:65534",
        )
        assert {bound["HostIp"] for binds in ports.values() for bound in binds or ()} <= {"127.0.0.1"}


def test_an_engine_that_dies_and_comes_back_is_told(served: Watched) -> None:
    engine = served.container("engine")
    docker("kill", engine)
    wait_until(lambda: served.alerts().get("EngineDown") in ("pending", "firing"))
    docker("start", engine)
    wait_until(lambda: served.alerts().get("EngineRestarted") == "firing", timeout_s=240)
    wait_until(lambda: "EngineDown" not in served.alerts())


def test_down_leaves_the_measurements_and_nothing_else(served: Watched) -> None:
    done = served.user.run("down", "cpu-demo", "--name", served.user.name)
    assert done.returncode == 0, done.stderr
    assert served.user.leftovers() == []
    record = next((served.user.state / "runs").iterdir())
    assert 'kitctl_run_outcome{outcome="stopped"' in (Path(record) / "metrics" / "kitctl.prom").read_text()
