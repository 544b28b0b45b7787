"""A second host: its own network, file trees and Docker Engine with imitated GPUs, reached by a real sshd alone.

It is a network namespace with one cable to this machine, and a mount namespace with ``/root``, ``/srv`` and
``/run/docker.sock`` of its own. Neither machine has the other's loopback, home or engine.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gpuhost.gpu_host import (
    BRIDGE_NOTE,
    GpuHost,
    _default_bridge,
    _keep_default_bridge,
    _machine_dockerd,
    cdi_spec,
    write_nvidia_smi,
)

HERE = Path(__file__).parent
PREFIX = "kitfar-"
SSHD = "/usr/sbin/sshd"
HOOK = HERE.parent / "gpuhost" / "runtime_hook.py"


@dataclass(frozen=True, kw_only=True)
class RemoteHost:
    """The running host. ``ssh_options`` are for this test's ssh; ``address`` is what ``--host`` takes."""

    name: str
    folder: Path
    address_ip: str
    near_ip: str
    pid: int
    gpus: int

    @property
    def address(self) -> str:
        """The ``--host`` address: an alias of the ssh configuration below ``home``."""
        return f"ssh://root@{self.alias}"

    @property
    def docker_host(self) -> str:
        """Its engine's socket, as this machine's file system shows it: for the tests' own look."""
        return f"unix://{self.folder}/docker.sock"

    @property
    def alias(self) -> str:
        """The host's name in the user's ssh configuration."""
        return f"{self.name}.test"

    @property
    def cable(self) -> str:
        """This machine's end of the cable."""
        return f"{self.name[-9:]}a"

    def inside(self, *argv: str, check: bool = True) -> str:
        """Run a command on the host, as its console would; its stdout."""
        words = ["nsenter", "-t", str(self.pid), "-m", "-n", "-w/root", "--", *argv]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=self.env, timeout=120)
        assert done.returncode == 0 or not check, done.stderr + done.stdout
        return done.stdout

    @property
    def env(self) -> dict[str, str]:
        """The environment of a login there."""
        return {"PATH": f"{self.folder}/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin:{self.folder}/docker",
                "HOME": "/root", "IMITATED_GPU_NODES": f"{self.folder}/nodes"}  # fmt: skip

    def write_ssh_config(self, home: Path) -> None:
        """The user's own configuration (alias, port, key, known host) and, first on the PATH, an ssh that reads it.

        OpenSSH takes the home folder from the password file, whatever HOME says.
        """
        (home / ".ssh").mkdir(mode=0o700, parents=True, exist_ok=True)
        config, known = home / ".ssh/config", home / ".ssh/known_hosts"
        key = (self.folder / "ssh_host_key.pub").read_text().split()[:2]
        with known.open("a") as out:
            out.write(f"[{self.address_ip}]:2222 {' '.join(key)}\n")
        with config.open("a") as out:
            out.write(
                f"Host {self.alias}\n  HostName {self.address_ip}\n  Port 2222\n  IdentitiesOnly yes\n"
                f"  IdentityFile {self.folder}/user_key\n  UserKnownHostsFile {known}\n"
            )
        (home / "bin").mkdir(exist_ok=True)
        program = home / "bin/ssh"
        program.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {config} "$@"\n')
        program.chmod(0o755)

    def pull_cable(self) -> None:
        """From now on no byte passes between the two machines."""
        subprocess.run(["ip", "link", "set", self.cable, "down"], check=True)

    def plug_cable(self) -> None:
        """The line is as it was."""
        subprocess.run(["ip", "link", "set", self.cable, "up"], check=True)

    def as_gpu_host(self) -> GpuHost:
        """Its engine for the helpers of the imitated GPU host; the socket is reached through this file system."""
        return GpuHost(
            docker_host=self.docker_host,
            folder=self.folder,
            count=self.gpus,
            gpu_class="pcie",
        )


@contextmanager
def running_remote_host(*, gpus: int = 8, octet: int = 1) -> Iterator[RemoteHost]:
    """The host, swept away at the end with all that runs there."""
    assert Path(SSHD).exists(), "no sshd: install Debian's openssh-server first"
    sweep_abandoned()
    folder = Path(tempfile.gettempdir()) / f"{PREFIX}{secrets.token_hex(3)}"
    folder.mkdir(mode=0o755)
    with ExitStack() as clean_up:
        clean_up.callback(shutil.rmtree, folder, True)
        (folder / "owner").write_text(str(os.getpid()))
        _write_files(folder, gpus)
        pid = _start(folder, clean_up)
        near, far = _lay_cable(folder, pid, octet, clean_up)
        host = RemoteHost(name=folder.name, folder=folder, address_ip=far, near_ip=near, pid=pid, gpus=gpus)
        _wait(host)
        yield host


def lay_fabric(one: RemoteHost, other: RemoteHost) -> tuple[str, str]:
    """A network between two hosts alone, as ``fabric0`` on both; their addresses on it. It goes with the hosts."""
    words = ["ip", "link", "add", "fabric0", "netns", str(one.pid), "type", "veth"]
    subprocess.run([*words, "peer", "name", "fabric0", "netns", str(other.pid)], check=True)
    addresses = ("198.18.255.1", "198.18.255.2")
    for host, address in zip((one, other), addresses, strict=True):
        host.inside("ip", "address", "add", f"{address}/30", "dev", "fabric0")
        host.inside("ip", "link", "set", "fabric0", "up")
    return addresses


def sweep_abandoned() -> None:
    """Stop what a killed test run left behind: its engine ended with it, its sshd did not."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        owner, sshd = folder / "owner", folder / "sshd.pid"
        if owner.exists() and not Path(f"/proc/{owner.read_text()}").exists():
            if sshd.exists() and str(folder) in _command_line(int(sshd.read_text())):
                for pid in _processes_of(int(sshd.read_text())):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            _unmount_below(folder)
            shutil.rmtree(folder, ignore_errors=True)


def _command_line(pid: int) -> str:
    path = Path(f"/proc/{pid}/cmdline")
    return path.read_text() if path.exists() else ""


def _unmount_below(folder: Path) -> None:
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for mount in sorted((p for p in points if p.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "-l", mount], check=False)


def _write_files(folder: Path, gpus: int) -> None:
    for name in ("bin", "nodes", "cdi", "root", "srv", "docker"):
        (folder / name).mkdir()
    write_nvidia_smi(folder / "bin/nvidia-smi", count=gpus, gpu_class="pcie")
    for index in range(gpus):
        (folder / f"nodes/nvidia{index}").touch()
    (folder / "cdi/nvidia.json").write_text(json.dumps(cdi_spec(gpus, folder / "bin/nvidia-smi")))
    (folder / "docker/docker").symlink_to(str(shutil.which("docker")))
    for name in ("ssh_host_key", "user_key"):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(argv, check=True)
    (folder / "root/.ssh").mkdir(mode=0o700)
    (folder / "root").chmod(0o700)
    shutil.copy(folder / "user_key.pub", folder / "root/.ssh/authorized_keys")
    (folder / "daemon.json").write_text(
        json.dumps(
            {
                "data-root": str(folder / "data"),
                "exec-root": str(folder / "exec"),
                "pidfile": str(folder / "docker.pid"),
                "hosts": [f"unix://{folder}/docker.sock"],
                "containerd-namespace": folder.name,
                "containerd-plugins-namespace": f"{folder.name}-plugins",
                "features": {"containerd-snapshotter": True, "cdi": True},
                "cdi-spec-dirs": [str(folder / "cdi")],
            }
        )
    )
    (folder / "sshd_config").write_text(
        f"Port 2222\nHostKey {folder}/ssh_host_key\nPidFile {folder}/sshd.pid\nStrictModes no\nUsePAM no\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
        "AuthorizedKeysFile /root/.ssh/authorized_keys\nSetEnv IMITATED_GPU_NODES="
        f"{folder}/nodes\n"
    )
    path = f"{folder}/bin:/usr/sbin:/usr/bin:/sbin:/bin:{folder}/docker"
    (folder / "root/.profile").write_text(f"echo Welcome to this host\nexport PATH={path}\n")


_SETUP = """
set -e
mount --make-rprivate /
mkdir -p /run/sshd
mount --bind "$1/root" /root
mount --bind "$1/srv" /srv
touch "$1/docker.sock.place"
ip link set lo up
sysctl -qw net.ipv4.ip_forward=1 || true
{ while [ ! -S "$1/docker.sock" ]; do sleep 0.1; done; mount --bind "$1/docker.sock" /run/docker.sock; } &
exec "$2" --config-file "$1/daemon.json"
"""


def _start(folder: Path, clean_up: ExitStack) -> int:
    """The namespaces, and dockerd as their first process; its process id."""
    dockerd, path = _machine_dockerd()
    (folder / BRIDGE_NOTE).write_text(json.dumps(_default_bridge()))
    clean_up.callback(_keep_default_bridge, folder)
    argv = ["setpriv", "--pdeathsig", "TERM", "unshare", "--mount", "--net", "--", "sh", "-c", _SETUP, "sh"]
    with (folder / "dockerd.log").open("wb") as log:
        daemon = subprocess.Popen(
            [*argv, str(folder), dockerd],
            env={"PATH": path, "GPU_HOST_REMOTE": folder.name},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )
    clean_up.callback(_end, daemon, folder)
    deadline = time.monotonic() + 20
    while _network_of(daemon.pid) == _network_of(os.getpid()):
        assert time.monotonic() < deadline, "the host got no network of its own"
        time.sleep(0.02)
    return daemon.pid


def _network_of(pid: int) -> str:
    return os.readlink(f"/proc/{pid}/ns/net")  # noqa: PTH115  # a link to a name that is no path


def _end(daemon: subprocess.Popen[bytes], folder: Path) -> None:
    """Containers, sshd and all else that lives in the host's network, then its engine."""
    env = {**os.environ, "DOCKER_HOST": f"unix://{folder}/docker.sock"}
    words = "docker ps -aq | xargs -r docker rm -f -v"
    subprocess.run(["sh", "-c", words], env=env, capture_output=True, timeout=120, check=False)
    for pid in _processes_of(daemon.pid):
        if pid != daemon.pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    daemon.terminate()
    try:
        daemon.wait(40)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()
    _unmount_below(folder)


def _processes_of(pid: int) -> list[int]:
    """Processes in the network of ``pid`` that are its own: neither this machine's nor a container's."""
    net = _network_of(pid)
    if net == _network_of(os.getpid()):
        return []
    found = []
    for other in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if _network_of(int(other.name)) == net:
                found.append(int(other.name))
    return found


def _lay_cable(folder: Path, pid: int, octet: int, clean_up: ExitStack) -> tuple[str, str]:
    """A pair of network devices; this machine's and the host's address."""
    held = subprocess.run(["ip", "-o", "-4", "address"], capture_output=True, text=True, check=True).stdout
    net = next(f"198.19.{n}" for n in range(200 + octet, 256) if f" 198.19.{n}." not in held)
    near, far = f"{folder.name[-9:]}a", f"{folder.name[-9:]}b"
    for words in (
        ["ip", "link", "add", near, "type", "veth", "peer", "name", far],
        ["ip", "link", "set", far, "netns", str(pid)],
        ["ip", "address", "add", f"{net}.1/24", "dev", near],
        ["ip", "link", "set", near, "up"],
        ["nsenter", "-t", str(pid), "-n", "ip", "address", "add", f"{net}.2/24", "dev", far],
        ["nsenter", "-t", str(pid), "-n", "ip", "link", "set", far, "up"],
    ):
        subprocess.run(words, check=True)
    clean_up.callback(subprocess.run, ["ip", "link", "delete", near], capture_output=True, check=False)
    return f"{net}.1", f"{net}.2"


def _wait(host: RemoteHost) -> None:
    deadline = time.monotonic() + 60
    while host.as_gpu_host().docker("version").returncode != 0:
        said = (host.folder / "dockerd.log").read_text()
        assert Path(f"/proc/{host.pid}").exists(), said[-3000:]
        assert time.monotonic() < deadline, said[-3000:]
        time.sleep(0.2)
    while "sock" not in host.inside(
        "sh", "-c", "docker -H unix:///run/docker.sock version >/dev/null && echo sock", check=False
    ):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    host.inside(SSHD, "-f", str(host.folder / "sshd_config"), "-E", str(host.folder / "sshd.log"))
