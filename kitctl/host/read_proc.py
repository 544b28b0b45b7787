"""What do the kernel's files and small tools say: memory, disks, listeners, NUMA, processes, kernel log?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kitctl.host.facts import Container, Disk, Listener, NumaNode

_CONTAINER_ID = re.compile(r"[0-9a-f]{64}")
_KERNEL_GPU = re.compile(r"NVRM: .*Xid|aer_uncor_status|AER: .*[Uu]ncorrect|GPU has fallen off the bus")
_SS_USER = re.compile(r'\("([^"]+)",pid=(\d+)')


def read_meminfo(text: str) -> dict[str, int]:
    """Bytes by name (``MemTotal``, ``MemAvailable``) from /proc/meminfo."""
    found = re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)
    return {name: int(kib) * 1024 for name, kib in found}


def read_cpuinfo(text: str) -> tuple[int | None, str | None]:
    """The number of CPUs and their vendor (``AuthenticAMD``) from /proc/cpuinfo."""
    vendor = re.search(r"^vendor_id\s*:\s*(\S+)", text, re.MULTILINE)
    count = len(re.findall(r"^processor\s*:", text, re.MULTILINE))
    return count or None, vendor.group(1) if vendor else None


def read_os_release(text: str) -> str | None:
    """The system's own name for people."""
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)"?', text, re.MULTILINE)
    return found.group(1) if found else None


def read_disk(text: str, path: str) -> Disk | None:
    """The disk of ``path`` from ``df -P -k PATH PARENT …``: the first line is its nearest existing place."""
    for line in text.splitlines():
        cells = line.split(None, 5)
        if len(cells) == 6 and cells[1].isdigit() and cells[3].lstrip("-").isdigit():
            free, total = max(int(cells[3]), 0) * 1024, int(cells[1]) * 1024
            return Disk(path=path, free_bytes=free, total_bytes=total, filesystem=cells[0])
    return None


def read_ss(text: str) -> tuple[Listener, ...]:
    """Listening TCP ports from ``ss -H -t -l -n -p``; the holder is shown to its owner and to root only."""
    found = []
    for line in text.splitlines():
        cells = line.split()
        if len(cells) < 4 or cells[0] != "LISTEN":
            continue
        address, _, port = cells[3].rpartition(":")
        holder = _SS_USER.search(line)
        pid = int(holder.group(2)) if holder else None
        if port.isdigit():
            name = holder.group(1) if holder else None
            found.append(Listener(port=int(port), address=_plain(address), pid=pid, holder=name))
    return tuple(found)


def _plain(address: str) -> str:
    bare = address.partition("%")[0].strip("[]")
    return {"*": "0.0.0.0", "::": "::"}.get(bare, bare)


def read_proc_tcp(text: str) -> tuple[Listener, ...]:
    """Listening TCP ports from /proc/net/tcp and tcp6 (state 0A); who holds them is not said there."""
    found = []
    for line in text.splitlines():
        cells = line.split()
        if len(cells) > 3 and cells[3] == "0A" and ":" in cells[1]:
            raw, _, port = cells[1].partition(":")
            found.append(Listener(port=int(port, 16), address=_address(raw)))
    return tuple(dict.fromkeys(found))


def _address(raw: str) -> str | None:
    if len(raw) == 8:
        return ".".join(str(int(raw[at : at + 2], 16)) for at in (6, 4, 2, 0))
    return "::" if set(raw) == {"0"} else None


def with_containers(listeners: Iterable[Listener], containers: Iterable[Container]) -> tuple[Listener, ...]:
    """Listeners with the container that publishes each port as holder, and ports published without a proxy."""
    publishers = {port: container.name for container in containers for port in container.ports}
    named = [
        Listener(
            port=one.port,
            address=one.address,
            pid=one.pid,
            holder=f"container {publishers[one.port]}" if one.port in publishers else one.holder,
        )
        for one in listeners
    ]
    hidden = sorted(set(publishers) - {one.port for one in named})
    return (*named, *(Listener(port=port, holder=f"container {publishers[port]}") for port in hidden))


def read_numa(text: str) -> tuple[NumaNode, ...] | None:
    """CPUs of each NUMA node from ``grep -r`` over /sys/devices/system/node."""
    found = re.findall(r"/node(\d+)/cpulist:(\S*)", text)
    return tuple(sorted((NumaNode(node=int(n), cpus=c) for n, c in found), key=lambda x: x.node)) or None


def read_gpu_sysfs(text: str) -> dict[str, tuple[int | None, str | None]]:
    """By PCI id (``0000:00:06.0``): NUMA node (-1 is unknown) and local CPUs."""
    values: dict[str, dict[str, str]] = {}
    for pci, name, value in re.findall(r"devices/([0-9a-fA-F:.]+)/(numa_node|local_cpulist):(\S*)", text):
        values.setdefault(pci.lower(), {})[name] = value
    return {
        pci: (_node(one.get("numa_node")), one.get("local_cpulist") or None) for pci, one in values.items()
    }


def _node(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


def sysfs_pci_id(bus_id: str) -> str:
    """nvidia-smi's ``00000000:00:06.0`` as sysfs spells it: ``0000:00:06.0``."""
    domain, _, rest = bus_id.partition(":")
    return f"{domain[-4:].rjust(4, '0')}:{rest}".lower()


def read_cgroups(text: str, containers: Iterable[Container]) -> Mapping[int, str]:
    """The container of each process (its name, else the first 12 digits of its id) from /proc/PID/cgroup."""
    names = {container.id: container.name for container in containers}
    found: dict[int, str] = {}
    for line in text.splitlines():
        place = re.match(r"/proc/(\d+)/cgroup:", line)
        held = _CONTAINER_ID.search(line)
        if place and held:
            found[int(place.group(1))] = names.get(held.group(), held.group()[:12])
    return found


def read_kernel_gpu_errors(text: str) -> tuple[str, ...]:
    """Lines of the kernel log that tell of a failing GPU or PCIe link, the last 20."""
    return tuple(line.strip() for line in text.splitlines() if _KERNEL_GPU.search(line))[-20:]
