"""kitctl as a user runs it: a process with state, configuration and model store of its own."""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

KIT = Path(__file__).parent.parent
_DROPPED = ("KITCTL_", "COMPOSE_", "DOCKER_", "XDG_", "HF_", "PYTHON")
_TEST_PORTS = range(10_000, 30_000)
_BYTECODE = Path(tempfile.gettempdir()) / f"kitctl-tests-bytecode-{os.getuid()}"


def free_port() -> int:
    """A TCP port that nothing listens on now, and that stays free until it is used.

    It lies below the ports that the kernel gives to outgoing connections (from 32768 on), and each test process draws
    from a part of its own, each port once.
    """
    for port in _PORTS:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
    raise AssertionError("every port of this test process was given")


def _own_ports() -> Iterator[int]:
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    own = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    mine = list(_TEST_PORTS[own::workers])
    random.shuffle(mine)
    return iter(mine)


def is_open(port: int, *, address: str = "127.0.0.1") -> bool:
    """Whether somebody takes a connection there."""
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex((address, port)) == 0


def holders(port: int) -> list[str]:
    """Who takes connections on ``port``, before and after ``ss`` was asked for its name; nobody: empty."""
    if not is_open(port):
        return []
    asked = ["ss", "-H", "-l", "-t", "-n", "-p", "sport", "=", f":{port}"]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    return [f"port {port}: {said.strip() or 'ss names nobody'}"] if is_open(port) else []


def docker(*words: str) -> str:
    """``docker WORDS`` on the machine's engine; its stdout."""
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


_PORTS = _own_ports()


@dataclass(frozen=True, kw_only=True)
class Running:
    """A kitctl that runs: its process, and the time at which each line of its stderr came."""

    process: subprocess.Popen[str]
    lines: list[tuple[float, str]] = field(default_factory=list)

    def wait_for(self, text: str, *, timeout_s: float = 60.0) -> float:
        """Read stderr until a line holds ``text``; the wall clock second at which it came."""
        assert self.process.stderr is not None
        deadline = time.monotonic() + timeout_s
        for line in self.process.stderr:
            self.lines.append((time.time(), line.rstrip()))
            if text in line:
                return self.lines[-1][0]
            assert time.monotonic() < deadline, self.said
        raise AssertionError(f"{text!r} was not said: {self.said}")

    def send(self, number: signal.Signals) -> None:
        """Send a signal to kitctl alone, as ``kill`` does."""
        self.process.send_signal(number)

    def end(self, *, timeout_s: float = 60.0) -> int:
        """Wait for the end; the exit code.

        What is left of both streams is read through their own buffers, which hold lines that came together with the
        one that was waited for; ``communicate`` would pass them by.
        """
        assert self.process.stderr is not None and self.process.stdout is not None
        rest: list[list[str]] = [[], []]
        readers = [
            Thread(target=lambda kept=kept, stream=stream: kept.extend(stream), daemon=True)
            for kept, stream in zip(rest, (self.process.stderr, self.process.stdout), strict=True)
        ]
        for reader in readers:
            reader.start()
        until_s = time.monotonic() + timeout_s
        self.process.wait(timeout_s)
        for reader in readers:
            reader.join(max(1.0, until_s - time.monotonic()))
        assert not any(reader.is_alive() for reader in readers), "something else holds its streams open"
        _close(self.process)
        self.lines.extend((time.time(), line.rstrip("\n")) for kept in rest for line in kept)
        return self.process.returncode

    @property
    def said(self) -> str:
        """All that was read so far."""
        return "\n".join(line for _, line in self.lines)


@dataclass(frozen=True, kw_only=True)
class KitUser:
    """A user of kitctl with folders of its own below ``home`` and a ``--name`` of its own."""

    home: Path
    name: str
    port: int
    extra: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[str]] = field(default_factory=list, repr=False)

    @property
    def env(self) -> dict[str, str]:
        """The environment: this process's without what would point elsewhere; bytecode is kept, as pip keeps it."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
        own = {
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "HF_HUB_CACHE": str(self.home / "store"),
            "KITCTL_KIT": str(KIT),
            "PYTHONPYCACHEPREFIX": str(_BYTECODE),
        }
        return kept | own | self.extra

    @property
    def state(self) -> Path:
        """Where runs and locks lie."""
        return self.home / "state" / "kitctl"

    def write_config(self, name: str, text: str) -> Path:
        """A file of the user's own: ``stacks/mine.yaml``, ``overlays/mine.yaml``."""
        path = self.home / "config" / "kitctl" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run(self, *words: str, timeout_s: float = 120.0, **more: Any) -> subprocess.CompletedProcess[str]:
        """``kitctl WORDS`` to its end. ``more`` may set ``cwd``, ``env`` or ``stdin``."""
        argv = [sys.executable, "-m", "kitctl", *words]
        options = {"env": self.env, "cwd": self.home, "stdin": subprocess.DEVNULL} | more
        return subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False, **options)

    def json(self, *words: str, exit_code: int = 0) -> Any:
        """What ``kitctl WORDS --json`` prints, after its exit code was as expected."""
        done = self.run(*words, "--json")
        assert done.returncode == exit_code, done.stderr + done.stdout
        return json.loads(done.stdout)

    def start(self, *words: str) -> Running:
        """``kitctl WORDS`` in the background, in a process group of its own."""
        argv = [sys.executable, "-m", "kitctl", *words]
        process = subprocess.Popen(
            argv,
            env=self.env,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return Running(process=process)

    def up(self, *words: str, stack: str = "cpu-demo") -> tuple[str, ...]:
        """The words of ``kitctl up`` with this user's name and port."""
        return ("up", stack, "--name", self.name, "--port", str(self.port), *words)

    def containers(self) -> list[str]:
        """Names of this user's containers, running or not."""
        return docker("ps", "-a", "--format", "{{.Names}}", "--filter", f"name={self.name}").split()

    def networks(self) -> list[str]:
        """Names of this user's networks."""
        return docker("network", "ls", "--format", "{{.Name}}", "--filter", f"name={self.name}").split()

    def leftovers(self) -> list[str]:
        """What an ended run must not leave: containers, networks, a taken port, half-written files."""
        halves = [str(path) for path in self.home.rglob(".*") if path.is_file()]
        halves = [path for path in halves if not path.endswith("/.env")]
        return [*self.containers(), *self.networks(), *halves, *holders(self.port)]

    def clean_up(self) -> None:
        """End what a failed test left running, and remove what it left on the engine."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.communicate()
            _close(process)
        for container in self.containers():
            docker("rm", "-f", container)
        for network in self.networks():
            docker("network", "rm", network)


def _close(process: subprocess.Popen[str]) -> None:
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


@contextmanager
def new_user(home: Path, **extra: str) -> Iterator[KitUser]:
    """A user of kitctl; whatever is left on the engine at the end is removed."""
    user = KitUser(home=home, name=f"t{secrets.token_hex(3)}", port=free_port(), extra=extra)
    try:
        yield user
    finally:
        user.clean_up()
