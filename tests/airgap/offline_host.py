"""A host without network: a network namespace that has nothing but its own loopback, and an empty Docker Engine in it.

The namespace is the real thing: no route, no name service, no neighbour. Processes enter it with ``nsenter``; the
engine keeps containers, bridge and published ports inside it.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuhost.gpu_host import _machine_dockerd

PREFIX = "kitair-"


@dataclass(frozen=True, kw_only=True)
class OfflineHost:
    """The namespace's name, and the folder of the engine's files."""

    name: str
    folder: Path

    @property
    def docker_host(self) -> str:
        """What DOCKER_HOST must hold to reach the engine."""
        return f"unix://{self.folder}/docker.sock"

    def run(self, argv: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """A process inside the namespace, to its end, output kept."""
        words = ["nsenter", f"--net=/run/netns/{self.name}", "--", *argv]
        return subprocess.run(words, capture_output=True, text=True, check=False, **options)

    def docker(self, *words: str) -> str:
        """``docker WORDS`` on the engine; its stdout."""
        done = self.run(["docker", "--host", self.docker_host, *words])
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@contextmanager
def running_offline_host(*, containerd_store: bool = True) -> Iterator[OfflineHost]:
    """The host, swept away at the end. Without ``containerd_store`` the engine keeps images as Docker always did."""
    name = f"{PREFIX}{secrets.token_hex(4)}"
    host = OfflineHost(name=name, folder=Path(tempfile.gettempdir()) / name)
    host.folder.mkdir(mode=0o700)
    try:
        subprocess.run(["ip", "netns", "add", name], check=True)
        host.run(["ip", "link", "set", "lo", "up"])
        daemon = _start(host, containerd_store=containerd_store)
        try:
            _await(host, daemon)
            yield host
        finally:
            _end(host, daemon)
    finally:
        for mount in _mounts_below(host.folder):
            subprocess.run(["umount", "--lazy", mount], check=False)
        subprocess.run(["ip", "netns", "delete", name], check=False)
        shutil.rmtree(host.folder, ignore_errors=True)


def _start(host: OfflineHost, *, containerd_store: bool) -> subprocess.Popen[bytes]:
    config = {
        "data-root": str(host.folder / "data"),
        "exec-root": str(host.folder / "exec"),
        "pidfile": str(host.folder / "docker.pid"),
        "hosts": [host.docker_host],
        "features": {"containerd-snapshotter": containerd_store},
        "default-address-pools": [{"base": "198.19.0.0/16", "size": 27}],
        "bip": "198.19.255.1/27",
    }
    if not containerd_store:
        config["storage-driver"] = "overlay2"
    (host.folder / "daemon.json").write_text(json.dumps(config))
    dockerd, path = _machine_dockerd()
    argv = ["setpriv", "--pdeathsig", "TERM", dockerd, "--config-file", str(host.folder / "daemon.json")]
    with (host.folder / "dockerd.log").open("wb") as log:
        return subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{host.name}", "--", *argv],
            env={"PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )


def _await(host: OfflineHost, daemon: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 90
    while host.run(["docker", "--host", host.docker_host, "version"]).returncode != 0:
        said = (host.folder / "dockerd.log").read_text()
        assert daemon.poll() is None, f"dockerd ended: {said[-3000:]}"
        assert time.monotonic() < deadline, f"dockerd does not answer: {said[-3000:]}"
        time.sleep(0.2)


def _end(host: OfflineHost, daemon: subprocess.Popen[bytes]) -> None:
    left = host.run(["docker", "--host", host.docker_host, "ps", "--all", "--quiet"]).stdout.split()
    if left:
        host.run(["docker", "--host", host.docker_host, "rm", "--force", *left])
    pidfile = host.folder / "docker.pid"
    with suppress(OSError, ValueError):
        os.kill(int(pidfile.read_text()), signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        daemon.wait(60)
        return
    daemon.kill()


def _mounts_below(folder: Path) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = {line.split()[4] for line in lines}
    return sorted((point for point in points if point.startswith(f"{folder}/")), reverse=True)


def kitctl_argv(*words: str) -> list[str]:
    """This tree's kitctl as an argv."""
    return [sys.executable, "-m", "kitctl", *words]
