"""A second Docker Engine, private to the test run, on a host that seems to have NVIDIA GPUs, or no driver.

The engine runs on paths, a bridge and addresses of its own beside the machine's engine, and changes no firewall
rule of it. GPUs are imitated in both ways that Docker knows: a runtime hook (``driver: nvidia``, ``--gpus``) and
a CDI spec (``nvidia.com/gpu=2``). Containers see device nodes and an nvidia-smi, and no driver behind them.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

HERE = Path(__file__).parent
IMAGE = "gpuhost/busybox:1"
PREFIX = "kitgpu-"
BRIDGE_NOTE = "default-bridge"
NVIDIA_MAJOR = 195
CLASSES = {
    "pcie": {
        "NAME": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "MEMORY_MIB": "97887",
        "CAPABILITY": "12.0",
    },
    "nvlink": {"NAME": "NVIDIA B200", "MEMORY_MIB": "183359", "CAPABILITY": "10.0"},
}
DRIVER_VERSION = {"DRIVER": "580.126.09", "CUDA": "13.0"}

GpuClass = Literal["pcie", "nvlink"]
DriverKind = Literal["hook", "cdi"]


@dataclass(frozen=True, kw_only=True)
class GpuHost:
    """A running private engine. ``docker_host`` is what DOCKER_HOST must hold to reach it."""

    docker_host: str
    folder: Path
    count: int
    gpu_class: GpuClass

    @property
    def env(self) -> dict[str, str]:
        """This process's environment, pointed at the private engine."""
        kept = {name: value for name, value in os.environ.items() if name != "DOCKER_CONTEXT"}
        return kept | {"DOCKER_HOST": self.docker_host}

    @property
    def nvidia_smi(self) -> Path:
        """The imitated nvidia-smi; on the host it reads the nodes in ``$IMITATED_GPU_NODES``."""
        return self.folder / "host/nvidia-smi"

    def docker(self, *words: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[str]:
        """``docker WORDS`` on the private engine, output kept."""
        done = subprocess.run(
            ["docker", *words], env=self.env, input=stdin, capture_output=True, timeout=120, check=False
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    def copy_image(self, tag: str) -> None:
        """Bring an image of the machine's own engine over."""
        saved = subprocess.run(["docker", "save", tag], capture_output=True, timeout=300, check=True)
        loaded = self.docker("load", stdin=saved.stdout)
        assert loaded.returncode == 0, loaded.stderr


@contextmanager
def running_gpu_host(
    *, count: int = 8, gpu_class: GpuClass = "pcie", drivers: tuple[DriverKind, ...] = ("hook", "cdi")
) -> Iterator[GpuHost]:
    """The engine, with a busybox image in it, swept away at the end. No ``drivers``: a host without GPUs."""
    sweep_abandoned()
    folder = Path(tempfile.gettempdir()) / f"{PREFIX}{secrets.token_hex(4)}"  # a name that containerd takes
    folder.mkdir(mode=0o700)
    (folder / "owner").write_text(str(os.getpid()))
    host = GpuHost(
        docker_host=f"unix://{folder}/docker.sock", folder=folder, count=count, gpu_class=gpu_class
    )
    with ExitStack() as clean_up:
        clean_up.callback(stop, folder)
        _choose_pool(folder)
        _write_host_files(host, drivers)
        _make_bridge(folder)
        daemon = _start_daemon(host)
        clean_up.callback(daemon.wait, 60)
        clean_up.callback(end_daemon, folder)
        _wait_for_answer(host, daemon)
        _import_busybox(host)
        yield host


def sweep_abandoned() -> None:
    """Stop what a killed test run left behind."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        owner = folder / "owner"
        if owner.exists() and not Path(f"/proc/{owner.read_text()}").exists():
            stop(folder)


def stop(folder: Path) -> None:
    """End the engine of ``folder`` and remove its containers, networks, mounts, rule, bridge and files."""
    end_daemon(folder)
    for mount in _mounts_below(folder):
        subprocess.run(["umount", "-l", mount], check=False)
    _remove_bridge(folder)
    _keep_default_bridge(folder)
    shutil.rmtree(folder, ignore_errors=True)


def end_daemon(folder: Path) -> None:
    """Remove what the engine runs, then end it; nothing when it has ended already."""
    pid = _daemon_pid(folder)
    if pid is None:
        return
    _remove_contents(folder)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 40
    while _daemon_pid(folder) is not None:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def cdi_spec(count: int, nvidia_smi: Path) -> dict[str, object]:
    """The CDI spec of ``count`` GPUs; nodes carry their numbers, so the host needs none."""

    def node(index: int) -> dict[str, object]:
        return {"path": f"/dev/nvidia{index}", "type": "c", "major": NVIDIA_MAJOR, "minor": index}

    each = [{"name": str(i), "containerEdits": {"deviceNodes": [node(i)]}} for i in range(count)]
    by_uuid = [
        {
            "name": f"GPU-00000000-0000-0000-0000-{i:012d}",
            "containerEdits": {"deviceNodes": [node(i)]},
        }
        for i in range(count)
    ]
    every = {"name": "all", "containerEdits": {"deviceNodes": [node(i) for i in range(count)]}}
    control = {"path": "/dev/nvidiactl", "type": "c", "major": NVIDIA_MAJOR, "minor": 255}
    tool = {
        "hostPath": str(nvidia_smi),
        "containerPath": "/usr/bin/nvidia-smi",
        "options": ["ro", "nosuid", "nodev", "bind"],
    }
    return {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [*each, *by_uuid, every],
        "containerEdits": {
            "env": ["NVIDIA_VISIBLE_DEVICES=void"],
            "deviceNodes": [control],
            "mounts": [tool],
        },
    }


def write_nvidia_smi(path: Path, *, count: int, gpu_class: GpuClass) -> None:
    """The imitated nvidia-smi for this kind of host."""
    text = (HERE / "nvidia-smi.sh").read_text()
    words = CLASSES[gpu_class] | DRIVER_VERSION | {"LINKS": gpu_class, "COUNT": str(count)}
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    path.write_text(text)
    path.chmod(0o755)


def _write_host_files(host: GpuHost, drivers: tuple[DriverKind, ...]) -> None:
    for name in ("host", "cdi", "path"):
        (host.folder / name).mkdir()
    write_nvidia_smi(host.nvidia_smi, count=host.count, gpu_class=host.gpu_class)
    if "cdi" in drivers:
        spec = cdi_spec(host.count, host.nvidia_smi)
        (host.folder / "cdi/nvidia.json").write_text(json.dumps(spec, indent=1))
    if "hook" in drivers:
        hook = host.folder / "path/nvidia-container-runtime-hook"
        hook.write_text(f'#!/bin/sh\nexec {sys.executable} -I {HERE / "runtime_hook.py"} "$@"\n')
        hook.chmod(0o755)
    (host.folder / "daemon.json").write_text(json.dumps(_daemon_config(host.folder), indent=1))


def _daemon_config(folder: Path) -> dict[str, object]:
    name = folder.name
    return {
        "data-root": str(folder / "data"),
        "exec-root": str(folder / "exec"),
        "pidfile": str(folder / "docker.pid"),
        "hosts": [f"unix://{folder}/docker.sock"],
        "containerd-namespace": name,
        "containerd-plugins-namespace": f"{name}-plugins",
        "features": {"containerd-snapshotter": True, "cdi": True},
        "cdi-spec-dirs": [str(folder / "cdi")],
        "bridge": _bridge_name(folder),
        "iptables": False,
        "ip6tables": False,
        "ip-masq": False,
        "default-address-pools": [{"base": f"{_pool(folder)}.0/24", "size": 27}],
    }


def _bridge_name(folder: Path) -> str:
    return f"kitgpu{folder.name.removeprefix(PREFIX)[:8]}"


def _choose_pool(folder: Path) -> None:
    """Addresses that no interface holds, from 198.18.0.0/15, which RFC 2544 sets aside for tests."""
    held = subprocess.run(["ip", "-o", "-4", "address"], capture_output=True, text=True, check=True).stdout
    first = zlib.crc32(folder.name.encode())
    nets = (f"198.{18 + n // 256}.{n % 256}" for n in ((first + step) % 512 for step in range(512)))
    (folder / "pool").write_text(next(net for net in nets if f" {net}." not in held))


def _pool(folder: Path) -> str:
    return (folder / "pool").read_text()


def _make_bridge(folder: Path) -> None:
    name = _bridge_name(folder)
    _run("ip", "link", "add", name, "type", "bridge")
    _run("ip", "address", "add", f"{_pool(folder)}.1/27", "dev", name)
    _run("ip", "link", "set", name, "up")
    _run("iptables", "-w", "-I", "FORWARD", *_forward_rule(folder))


def _forward_rule(folder: Path) -> list[str]:
    """Traffic between the private engine's containers: the machine's engine sets FORWARD to DROP."""
    return ["-s", f"{_pool(folder)}.0/24", "-d", f"{_pool(folder)}.0/24", "-j", "ACCEPT"]


def _remove_bridge(folder: Path) -> None:
    if not (folder / "pool").exists():
        return
    _run("iptables", "-w", "-D", "FORWARD", *_forward_rule(folder), check=False)
    _run("ip", "link", "delete", _bridge_name(folder), check=False)


def _default_bridge() -> list[str]:
    """Addresses of the machine's own default bridge, ``[]`` without one."""
    shown = subprocess.run(
        ["ip", "-4", "-j", "address", "show", "docker0"], capture_output=True, text=True, check=False
    )
    links = json.loads(shown.stdout or "[]") if shown.returncode == 0 else []
    return [f"{a['local']}/{a['prefixlen']}" for link in links for a in link.get("addr_info", [])]


def _keep_default_bridge(folder: Path) -> None:
    """Put the machine's default bridge back: a daemon with another bridge removes it when it is restarted (28.5.2)."""
    note = folder / BRIDGE_NOTE
    addresses = json.loads(note.read_text()) if note.exists() else []
    if not addresses or _default_bridge():
        return
    _run("ip", "link", "add", "docker0", "type", "bridge", check=False)
    for address in addresses:
        _run("ip", "address", "add", address, "dev", "docker0", check=False)
    _run("ip", "link", "set", "docker0", "up")


def _start_daemon(host: GpuHost) -> subprocess.Popen[bytes]:
    dockerd, path = _machine_dockerd()
    if not (host.folder / BRIDGE_NOTE).exists():
        (host.folder / BRIDGE_NOTE).write_text(json.dumps(_default_bridge()))
    env = {
        "PATH": f"{host.folder}/path:{path}",
        "GPU_HOST_COUNT": str(host.count),
        "GPU_HOST_SMI": str(host.nvidia_smi),
    }
    argv = ["setpriv", "--pdeathsig", "TERM", dockerd, "--config-file", str(host.folder / "daemon.json")]
    with (host.folder / "dockerd.log").open("wb") as log:
        daemon = subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )
    (host.folder / "daemon").write_text(str(daemon.pid))
    return daemon


def _wait_for_answer(host: GpuHost, daemon: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while host.docker("version").returncode != 0:
        said = (host.folder / "dockerd.log").read_text()
        assert daemon.poll() is None, f"dockerd ended: {said[-3000:]}"
        assert time.monotonic() < deadline, f"dockerd does not answer: {said[-3000:]}"
        time.sleep(0.2)
    _keep_default_bridge(host.folder)


def _machine_dockerd() -> tuple[str, str]:
    """The program and PATH of the machine's running engine, else what this process's PATH holds."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "environ").read_bytes().split(b"\0")
            program = str((process / "exe").readlink())
            if _is_dockerd_here(program) and not any(w.startswith(b"GPU_HOST_") for w in words):
                path = next((w[5:].decode() for w in words if w.startswith(b"PATH=")), "")
                return program, path or os.environ["PATH"]
    found = shutil.which("dockerd")
    assert found, "no dockerd on this machine: run 'kitctl setup --yes' first"
    return found, os.environ["PATH"]


def _is_dockerd_here(program: str) -> bool:
    """Whether it is a dockerd that this process can run too: another may run in a root of its own."""
    return Path(program).name == "dockerd" and Path(program).exists()


def _import_busybox(host: GpuHost) -> None:
    program = Path("/bin/busybox")
    assert program.exists(), "no /bin/busybox: install Debian's busybox-static first"
    applets = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    archive = host.folder / "busybox.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(program, "bin/busybox")
        for applet in applets:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            if applet != "busybox":
                tar.addfile(link)
    made = host.docker("import", str(archive), IMAGE)
    assert made.returncode == 0, made.stderr
    archive.unlink()


def _daemon_pid(folder: Path) -> int | None:
    written = folder / "daemon"
    if not written.exists():
        return None
    pid = int(written.read_text())
    with suppress(OSError):
        if str(folder) in Path(f"/proc/{pid}/cmdline").read_text():
            return pid
    return None


def _remove_contents(folder: Path) -> None:
    host = GpuHost(docker_host=f"unix://{folder}/docker.sock", folder=folder, count=0, gpu_class="pcie")
    containers = host.docker("ps", "-aq").stdout.split()
    if containers:
        host.docker("rm", "-f", "-v", *containers)
    host.docker("network", "prune", "-f")


def _mounts_below(folder: Path) -> list[str]:
    """Mount points under the folder, deepest first: a stopped engine leaves namespace mounts."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return sorted((point for point in points if point.startswith(f"{folder}/")), reverse=True)


def _run(*argv: str, check: bool = True) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not check, f"{' '.join(argv)}: {done.stderr}"
