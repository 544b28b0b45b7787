"""Probes run on the host of the engine: here or in a container, side by side, and none can hang all."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from gpuhost.gpu_host import GpuHost

from kitctl.host.facts import HostFacts
from kitctl.host.facts_json import decode_facts

GATHER = (
    "import sys, json; from kitctl.edge.probe_runner import gather_host_facts as g; "
    "from kitctl.host.facts_json import encode_facts as e; "
    "print(json.dumps(e(g(engine=None, disks=(sys.argv[1],), timeout_scale=float(sys.argv[2])))))"
)


def gather(docker_host: str, *, path: str = "", disk: str = "/", scale: str = "1", **more: str) -> HostFacts:
    """The facts as a process of its own finds them, so that its environment is its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DOCKER_")}
    env = kept | {"DOCKER_HOST": docker_host, "PATH": f"{path}:{os.environ['PATH']}"} | more
    argv = [sys.executable, "-c", GATHER, disk, scale]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return decode_facts(done.stdout, source="gathered")


def tool(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def test_a_process_that_hangs_costs_its_own_limit_alone(tmp_path: Path) -> None:
    tool(tmp_path / "here", "nvidia-smi", "#!/bin/sh\nsleep 300 & sleep 300\n")
    started = time.monotonic()
    facts = gather("unix:///nowhere.sock", path=str(tmp_path / "here"), scale="0.1")
    assert time.monotonic() - started < 8
    assert facts.driver is not None
    assert facts.driver.failure == "no answer within 1 s"
    assert facts.kernel is not None


ROW = '{"ID":"ab12","Names":"one-engine-1","Image":"i:1","Labels":"io.kitctl.stack=one","Ports":"0.0.0.0:81->80/tcp"}'
FLAKY_DOCKER = """#!/bin/sh
[ "$1" = ps ] || exit 1
echo "$@" >> "$0.asked"
[ $(wc -l < "$0.asked") -gt %d ] && { echo '%s'; exit 0; }
echo 'Error response from daemon: %s' >&2
exit 1
"""


@pytest.mark.parametrize(
    ("failures", "said", "asked"),
    [
        (2, "rw layer snapshot not found for container 0a57", 3),
        (9, "rw layer snapshot not found for container 0a57", 4),
        (9, "permission denied", 1),
    ],
)
def test_a_list_that_fails_because_something_went_away_is_asked_for_again(
    tmp_path: Path, failures: int, said: str, asked: int
) -> None:
    tool(tmp_path / "here", "docker", FLAKY_DOCKER % (failures, ROW, said))
    facts = gather("unix:///nowhere.sock", path=str(tmp_path / "here"))
    words = (tmp_path / "here" / "docker.asked").read_text().splitlines()
    assert len(words) == asked
    assert "{{json .}}" not in words[0], "that asks for sizes too, and fails when a container goes meanwhile"
    if failures < asked:
        assert [(one.name, one.stack, one.ports) for one in facts.containers or ()] == [
            ("one-engine-1", "one", (81,))
        ]
    else:
        assert facts.containers is None
        assert facts.unknown["containers"].endswith(said)


def test_a_path_that_does_not_exist_yet_is_judged_by_its_nearest_parent(tmp_path: Path) -> None:
    facts = gather("unix:///nowhere.sock", disk=f"{tmp_path}/not/yet/there")
    assert facts.disks is not None
    assert facts.disks[0].path == f"{tmp_path}/not/yet/there"
    assert facts.disks[0].free_bytes > 0
    assert facts.unknown["engine"].startswith("Cannot connect to the Docker daemon")


@contextmanager
def tcp_address_of(docker_host: str) -> Iterator[str]:
    """A TCP address that leads to the engine's socket."""
    listener = socket.create_server(("127.0.0.1", 0))
    ends: list[socket.socket] = []

    def carry(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            engine = socket.socket(socket.AF_UNIX)
            engine.connect(docker_host.removeprefix("unix://"))
            ends.extend((client, engine))
            for pair in ((client, engine), (engine, client)):
                threading.Thread(target=carry, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        for end in (listener, *ends):
            end.close()


@pytest.mark.docker
def test_an_engine_by_tcp_is_asked_in_a_container(gpu_host: GpuHost) -> None:
    with tcp_address_of(gpu_host.docker_host) as address:
        facts = gather(address, disk="/var/lib/docker")
    assert facts.probed_on == "a container of gpuhost/busybox:1"
    assert facts.gpus is not None
    assert len(facts.gpus) == 8
    assert facts.kernel is not None
    assert facts.disks is not None
    assert facts.disks[0].path == "/var/lib/docker"
    assert facts.ulimits is not None


@pytest.mark.docker
def test_cdi_alone_gives_gpus_too() -> None:
    from gpuhost.gpu_host import running_gpu_host

    with running_gpu_host(count=2, drivers=("cdi",)) as host:
        facts = gather(host.docker_host)
    assert facts.engine is not None
    assert facts.engine.gpu_driver == "cdi"
    assert facts.engine.cdi_devices is not None
    assert "nvidia.com/gpu=1" in facts.engine.cdi_devices
    assert facts.gpus is not None
    assert len(facts.gpus) == 2
