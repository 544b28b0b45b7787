"""An imitated nvidia-container-runtime-hook: gives a container the device nodes and nvidia-smi it asked for.

Called by runc as ``hook prestart`` with the OCI state on standard input. GPU_HOST_COUNT and GPU_HOST_SMI in
its environment (the daemon's) say how many GPUs the host has and where its nvidia-smi stands.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

NVIDIA_MAJOR = 195
CONTROL_MINOR = 255


def main() -> None:
    if sys.argv[1:] != ["prestart"]:
        return
    state = json.load(sys.stdin)
    bundle = Path(state["bundle"])
    spec = json.loads((bundle / "config.json").read_text())
    env = dict(pair.split("=", 1) for pair in spec["process"]["env"] if "=" in pair)
    asked = env.get("NVIDIA_VISIBLE_DEVICES", "void")
    if asked in ("void", ""):
        return
    allow_devices(state["pid"])
    root = bundle / spec["root"]["path"]
    for minor in minors(asked, int(os.environ["GPU_HOST_COUNT"])):
        make_node(state["pid"], root / f"dev/nvidia{minor}", minor)
    make_node(state["pid"], root / "dev/nvidiactl", CONTROL_MINOR)
    if {"all", "utility"} & set(env.get("NVIDIA_DRIVER_CAPABILITIES", "utility,compute").split(",")):
        give_nvidia_smi(root)


def minors(asked: str, count: int) -> list[int]:
    """GPU numbers for ``all``, ``none``, numbers and UUIDs; ends as the genuine hook does on any other."""
    if asked in ("all", "none"):
        return list(range(count)) if asked == "all" else []
    known = {str(index): index for index in range(count)}
    known |= {f"GPU-00000000-0000-0000-0000-{index:012d}": index for index in range(count)}
    unknown = [one for one in asked.split(",") if one not in known]
    if unknown:
        sys.exit(f"nvidia-container-cli: device error: {unknown[0]}: unknown device")
    return [known[one] for one in asked.split(",")]


def allow_devices(pid: int) -> None:
    """Open the container's device rules for the GPUs, behind its runtime's back, as the genuine hook does."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    group = next((line.split(":", 2)[2] for line in lines if line.split(":")[1] == "devices"), None)
    if group is not None:
        Path(f"/sys/fs/cgroup/devices{group}/devices.allow").write_text(f"c {NVIDIA_MAJOR}:* rw")


def make_node(pid: int, path: Path, minor: int) -> None:
    node = ["mknod", "-m", "666", str(path), "c", str(NVIDIA_MAJOR), str(minor)]
    subprocess.run(["nsenter", "-m", "-t", str(pid), *node], check=True)


def give_nvidia_smi(root: Path) -> None:
    target = root / "usr/bin/nvidia-smi"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(os.environ["GPU_HOST_SMI"], target)
    target.chmod(0o755)


main()
