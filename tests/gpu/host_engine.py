"""Start a Docker Engine on a GPU host that has none, GPUs by CDI: ``python3 host_engine.py BINARIES [--tree DIR ...]``.

For hosts where nothing can be fetched: BINARIES holds dockerd, containerd, containerd-shim-runc-v2, runc, docker-proxy,
docker-init, docker and docker-compose (and their libraries in BINARIES/lib). The image proof/host-tree:1 holds no files
of its own to speak of: the host's folders with its Python (``--tree``, read-only) come with the GPUs, as the driver's
files do, through the CDI spec that this writes. ``--seed DIR=NAME`` puts compiled kernels below the image's /cache.
"""

import argparse
import io
import json
import os
import subprocess
import tarfile
import time
from pathlib import Path

IMAGE = "proof/host-tree:1"
ENGINE_ID = 10001
STATE = Path("/run/proof-engine")
LINKS = ("bin", "lib", "lib64")
FILES = ("ld.so.cache", "ld.so.conf", "nsswitch.conf", "ssl/openssl.cnf")
KEPT_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "CUDA_HOME")
CACHES = {
    "HOME": "/cache",
    "XDG_CACHE_HOME": "/cache",
    "TVM_FFI_CACHE_DIR": "/cache/tvm-ffi",
    "TRITON_CACHE_DIR": "/cache/triton",
    "TORCHINDUCTOR_CACHE_DIR": "/cache/inductor",
    "FLASHINFER_WORKSPACE_BASE": "/cache",
    "CUDA_CACHE_PATH": "/cache/nv",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def gpu_count() -> int:
    return len([node for node in Path("/dev").glob("nvidia[0-9]*") if node.name[6:].isdigit()])


def write_cdi_spec(folder: Path, trees: list[str]) -> None:
    """The GPUs by number and by UUID, with the control nodes and the host's folders in each."""
    folder.mkdir(parents=True, exist_ok=True)
    uuids = subprocess.run(
        ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    each = [[{"path": f"/dev/nvidia{index}"}] for index in range(gpu_count())]
    names = [(str(i), nodes) for i, nodes in enumerate(each)]
    names += [(uuid, each[i]) for i, uuid in enumerate(uuids)]
    names += [("all", [node for nodes in each for node in nodes])]
    control = [
        node for node in ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools") if Path(node).exists()
    ]
    mounts = [
        {"hostPath": tree, "containerPath": tree, "options": ["ro", "nosuid", "nodev", "rbind"]}
        for tree in trees
    ]
    spec = {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [{"name": name, "containerEdits": {"deviceNodes": nodes}} for name, nodes in names],
        "containerEdits": {
            "env": ["NVIDIA_VISIBLE_DEVICES=void"],
            "deviceNodes": [{"path": node} for node in control],
            "mounts": mounts,
        },
    }
    (folder / "nvidia.json").write_text(json.dumps(spec, indent=1))


def start_daemon(binaries: Path) -> None:
    config = {
        "data-root": "/var/lib/proof-engine",
        "features": {"containerd-snapshotter": True, "cdi": True},
        "cdi-spec-dirs": [str(STATE / "cdi")],
        "iptables": False,
        "ip6tables": False,
        "ip-masq": False,
        "userland-proxy-path": str(binaries / "docker-proxy"),
        "init-path": str(binaries / "docker-init"),
    }
    (STATE / "daemon.json").write_text(json.dumps(config))
    # The engine's own libraries are for it and its runtime alone: what runs in containers takes the host's.
    env = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "LD_LIBRARY_PATH": str(binaries / "lib")}
    with (STATE / "dockerd.log").open("wb") as log:
        subprocess.Popen(
            [str(binaries / "dockerd"), "--config-file", str(STATE / "daemon.json")],
            stdout=log, stderr=log, env=env, start_new_session=True,
        )  # fmt: skip
    deadline_s = time.monotonic() + 40
    while subprocess.run(["docker", "version"], capture_output=True, check=False).returncode:
        if time.monotonic() > deadline_s:
            raise SystemExit("the engine does not answer\n" + (STATE / "dockerd.log").read_text()[-3000:])
        time.sleep(0.2)


def link_clients(binaries: Path) -> None:
    plugins = Path("/usr/local/lib/docker/cli-plugins")
    plugins.mkdir(parents=True, exist_ok=True)
    for link, target in (
        (Path("/usr/local/bin/docker"), "docker"),
        (plugins / "docker-compose", "docker-compose"),
    ):
        if not link.exists():
            link.symlink_to(binaries / target)


class RootTar:
    """An image's root file system in memory."""

    def __init__(self) -> None:
        self.held = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.held, mode="w")  # noqa: SIM115

    def folder(self, name: str, *, mode: int = 0o755, owner: int = 0) -> None:
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, mode, owner, owner
        self.tar.addfile(entry)

    def link(self, name: str, target: str) -> None:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = tarfile.SYMTYPE, target
        self.tar.addfile(entry)

    def file(self, name: str, content: bytes, *, owner: int = 0) -> None:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode, entry.uid, entry.gid = len(content), 0o755 if owner else 0o644, owner, owner
        self.tar.addfile(entry, io.BytesIO(content))

    def copy_below(self, source: Path, name: str, *, owner: int) -> None:
        self.folder(name, owner=owner)
        for path in sorted(source.rglob("*")):
            inside = f"{name}/{path.relative_to(source)}"
            if path.is_dir():
                self.folder(inside, owner=owner)
            else:
                self.file(inside, path.read_bytes(), owner=owner)

    def content(self) -> bytes:
        self.tar.close()
        return self.held.getvalue()


def root_tar(trees: list[str], seeds: list[str]) -> bytes:
    """Mount points, the links and files without which no program starts, the engine's user, and /cache."""
    root = RootTar()
    for name in sorted(
        {"etc", "etc/alternatives", "etc/ssl", "proc", "sys", "dev", "run", "var", "models", "sbin"}
    ):
        root.folder(name)
    for tree in trees:
        root.folder(tree.strip("/"))
    root.folder("tmp", mode=0o1777)
    # sbin is a folder, not the link: the engine puts its init there, and /usr is read-only.
    real = "ldconfig.real" if Path("/usr/sbin/ldconfig.real").exists() else "ldconfig"
    root.link("sbin/ldconfig", f"../usr/sbin/{real}")
    for name in LINKS:
        if Path("/", name).is_symlink():
            root.link(name, str(Path("/", name).readlink()))
    for name in FILES:
        if Path("/etc", name).is_file():
            root.file(f"etc/{name}", Path("/etc", name).read_bytes())
    for link in (path for path in Path("/etc/alternatives").iterdir() if path.is_symlink()):
        root.link(f"etc/alternatives/{link.name}", str(link.readlink()))
    user = f"engine:x:{ENGINE_ID}:"
    root.file("etc/passwd", f"root:x:0:0::/root:/bin/sh\n{user}{ENGINE_ID}::/cache:/bin/sh\n".encode())
    root.file("etc/group", f"root:x:0:\n{user}\n".encode())
    root.folder("cache", owner=ENGINE_ID)
    for seed in seeds:
        source, name = seed.split("=")
        root.copy_below(Path(source), f"cache/{name}", owner=ENGINE_ID)
    return root.content()


def import_image(trees: list[str], seeds: list[str]) -> None:
    environment = {name: os.environ[name] for name in KEPT_ENVIRONMENT if os.environ.get(name)} | CACHES
    changes = [
        'ENTRYPOINT ["python3", "-m", "sglang.launch_server"]',
        f"USER {ENGINE_ID}:{ENGINE_ID}",
        "WORKDIR /cache",
    ]
    changes += [f"ENV {name}={value}" for name, value in environment.items()]
    words = [word for change in changes for word in ("--change", change)]
    subprocess.run(
        ["docker", "import", *words, "-", IMAGE],
        input=root_tar(trees, seeds),
        check=True,
        stdout=subprocess.DEVNULL,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binaries", type=Path)
    parser.add_argument("--tree", action="append", default=[])
    parser.add_argument("--seed", action="append", default=[])
    args = parser.parse_args()
    STATE.mkdir(parents=True, exist_ok=True)
    write_cdi_spec(STATE / "cdi", args.tree)
    link_clients(args.binaries)
    start_daemon(args.binaries)
    import_image(args.tree, args.seed)


if __name__ == "__main__":
    main()
