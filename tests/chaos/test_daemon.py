"""The container engine itself is restarted: what is up comes back with --boot, and what is not is told as it is."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from chaos.events import watch
from chaos.measured import keep_named
from gpuhost.gpu_host import GpuHost, _daemon_pid, _start_daemon, _wait_for_answer, running_gpu_host
from kitctl_process import new_user

pytestmark = [pytest.mark.docker, pytest.mark.slow]
watching = contextmanager(watch)


Engine = tuple[GpuHost, list[subprocess.Popen[bytes]]]


@pytest.fixture(scope="module")
def own_engine(fault_server: str) -> Iterator[Engine]:
    """An engine that may be stopped, and the daemons that were started after it."""
    later: list[subprocess.Popen[bytes]] = []
    with running_gpu_host(drivers=()) as host:
        host.copy_image(fault_server)
        yield host, later
    for daemon in later:
        daemon.wait(60)


@contextmanager
def restarted(engine: Engine, how: str) -> Iterator[None]:
    """The engine is stopped as its service manager does, killed, or loses its power with all that it runs; it runs
    again when the block ends."""
    host, later = engine
    pid = _daemon_pid(host.folder)
    assert pid is not None
    running = _all_processes(host) if how == "power-cut" else []
    os.kill(pid, signal.SIGTERM if how == "stopped" else signal.SIGKILL)
    for process in running:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    if later:
        later[-1].wait(60)
    else:
        os.waitpid(pid, 0)
    yield
    later.append(_start_daemon(host))
    _wait_for_answer(host, later[-1])


def _all_processes(host: GpuHost) -> list[int]:
    """The engine's containers and all that it started for them."""
    own = [
        int(path.name)
        for path in Path("/proc").glob("[0-9]*")
        if path.name != str(os.getpid()) and host.folder.name in _command(path)
    ]
    inside = host.docker("ps", "-q").stdout.split()
    return own + [int(host.docker("inspect", "-f", "{{.State.Pid}}", one).stdout) for one in inside]


def _command(process: Path) -> str:
    with suppress(OSError):
        return (process / "cmdline").read_text()
    return ""


@pytest.mark.parametrize(
    ("name", "how", "boot", "exit_code"),
    [
        ("daemon-restarted-boot", "stopped", ("--boot",), 0),
        ("daemon-killed-boot", "killed", ("--boot",), 0),
        ("power-cut-boot", "power-cut", ("--boot",), 0),
        ("daemon-restarted-no-boot", "stopped", (), 7),
    ],
)
def test_the_engine_is_restarted(
    name: str,
    how: str,
    boot: tuple[str, ...],
    exit_code: int,
    own_engine: Engine,
    fault_server: str,
    tmp_path: Path,
    accept: bool,
) -> None:
    with new_user(tmp_path, DOCKER_HOST=own_engine[0].docker_host) as user:
        up = user.run(*user.up("--image", fault_server, *boot))
        assert up.returncode == 0, up.stderr
        with restarted(own_engine, how):
            gone = user.run("status", "cpu-demo", "--name", user.name)
            assert gone.returncode == 10, gone.stderr
            begun_s = time.time()
        status = user.run("status", "cpu-demo", "--name", user.name)
        while status.returncode != exit_code and time.time() < begun_s + 60:
            time.sleep(0.5)
            status = user.run("status", "cpu-demo", "--name", user.name)
        assert status.returncode == exit_code, status.stdout + status.stderr
        assert f": {'ready' if boot else 'stopped'}, " in status.stdout
        if accept:
            keep_named(name, seconds=time.time() - begun_s)
        assert user.run("down", "cpu-demo", "--name", user.name).returncode == 0


@pytest.mark.parametrize(("boot", "last"), [(("--boot",), "ready"), ((), "stopped")], ids=["boot", "no-boot"])
def test_watch_outlives_the_engine(
    boot: tuple[str, ...], last: str, own_engine: Engine, fault_server: str, tmp_path: Path, accept: bool
) -> None:
    with new_user(tmp_path, DOCKER_HOST=own_engine[0].docker_host) as user:
        assert user.run(*user.up("--image", fault_server, *boot)).returncode == 0
        with watching(user, "--every", "1", "--patience", "2") as watcher:
            watcher.wait_for("ready", timeout_s=20)
            with restarted(own_engine, "killed"):
                watcher.wait_for("unreachable", timeout_s=20)
            begun_s = time.time()
            while watcher.states()[-1] != last and time.time() < begun_s + 60:
                time.sleep(0.1)
            assert watcher.states()[-1] == last, watcher.states()
            assert watcher.process.poll() is None
        assert user.run("down", "cpu-demo", "--name", user.name).returncode == 0
        if accept and boot:
            keep_named("watch-outlives-engine", seconds=time.time() - begun_s)
