"""Is there room for the stack: port, disk, memory, shared memory, limits, CPUs, and is the clock right?"""

from __future__ import annotations

from collections.abc import Iterator

from kitctl.finding import Finding
from kitctl.host.facts import HostFacts, Listener
from kitctl.plan.host_need import HostNeed, reserved_gpus
from kitctl.plan.host_tables import HostTables
from kitctl.plan.sizes import size_text

_WILDCARDS = ("0.0.0.0", "::", "*", "")


def check_host_space(facts: HostFacts, tables: HostTables) -> Iterator[Finding]:
    """Findings that need no stack: disks nearly full, a clock that is off, a kernel that reports failing GPUs."""
    by_filesystem = {disk.filesystem or disk.path: disk for disk in reversed(facts.disks or ())}
    for disk in by_filesystem.values():
        if disk.free_bytes < disk.total_bytes * tables.limits.disk_warn_share:
            free, total = size_text(disk.free_bytes), size_text(disk.total_bytes)
            yield tables.book.tell("disk-nearly-full", where="disks", path=disk.path, free=free, total=total)
    skew = facts.clock_skew_s
    if skew is not None and abs(skew) > tables.limits.clock_skew_warn_s:
        yield tables.book.tell("clock-off", f"host: {facts.clock_utc}", where="clock", skew=f"{skew:+g}")
    if facts.kernel_gpu_errors:
        words = (facts.kernel_command_line or "").split()
        lacks = [word for word in ("pcie_aspm=off", "pcie_port_pm=off") if word not in words]
        told = [f"the kernel command line lacks {' '.join(lacks)}"] if lacks and words else []
        lines = (*facts.kernel_gpu_errors[-4:], *told)
        yield tables.book.tell("kernel-reports-gpu-errors", *lines, where="kernel")


def check_stack_space(facts: HostFacts, need: HostNeed, tables: HostTables) -> Iterator[Finding]:
    """Findings on what the stack would take from the host."""
    yield from check_port(facts, need, tables)
    yield from _check_disk(facts, need, tables)
    yield from _check_shm(facts, need, tables)
    yield from _check_ulimits(facts, need, tables)
    yield from _check_cpuset(facts, need, tables)
    if need.ram_bytes and facts.ram_available_bytes and facts.ram_available_bytes < need.ram_bytes:
        needed, free = size_text(need.ram_bytes), size_text(facts.ram_available_bytes)
        yield tables.book.tell("host-ram-too-small", where="ram_available_bytes", needed=needed, free=free)


def check_port(facts: HostFacts, need: HostNeed, tables: HostTables) -> Iterator[Finding]:
    """A finding when somebody else listens where the need's ``bind:port`` is to be."""
    own = {f"container {one.name}" for one in facts.containers or () if one.project == need.own_project}
    taken = [one for one in facts.listeners or () if one.port == need.port and _clash(one.address, need.bind)]
    clash = next((one for one in taken if one.holder not in own or need.own_project is None), None)
    if clash is None:
        return
    in_container = (clash.holder or "").startswith("container ")
    unlisted = facts.unknown.get("containers") if facts.containers is None else None
    yield tables.book.tell(
        "port-taken-by-container" if in_container else "port-taken-by-host-process",
        f"listening on {clash.address or 'an unknown address'}:{clash.port}",
        *([f"which container publishes it is not known: {unlisted}"] if unlisted else []),
        where="serve.port",
        port=clash.port,
        holder=_holder(clash),
    )


def _clash(address: str | None, bind: str | None) -> bool:
    """Whether both cannot listen: the same address, or either of them all addresses."""
    return address is None or bind is None or address == bind or address in _WILDCARDS or bind in _WILDCARDS


def _holder(listener: Listener) -> str:
    if listener.holder is None:
        return "a process that only root may see"
    return listener.holder if listener.pid is None else f"{listener.holder} (pid {listener.pid})"


def _check_disk(facts: HostFacts, need: HostNeed, tables: HostTables) -> Iterator[Finding]:
    """Everything that is to be written to one file system must fit into it together."""
    margin = tables.limits.disk_margin_bytes
    seen = {disk.path: disk for disk in facts.disks or ()}
    by_filesystem: dict[str, dict[str, int]] = {}
    for path, needed in need.disk_bytes.items():
        if path in seen and needed > 0:
            by_filesystem.setdefault(seen[path].filesystem or path, {})[path] = needed
    for filesystem, parts in by_filesystem.items():
        disk, needed = seen[next(iter(parts))], sum(parts.values())
        if disk.free_bytes >= needed + margin:
            continue
        yield tables.book.tell(
            "disk-too-small",
            f"{disk.path}: {disk.free_bytes} bytes free on {disk.filesystem or 'its disk'}",
            f"{needed} bytes to be written, {margin} to be left free",
            *(
                f"{size_text(part)} of it to {path} on {filesystem}"
                for path, part in parts.items()
                if len(parts) > 1
            ),
            where="disks",
            path=disk.path,
            free=size_text(disk.free_bytes),
            needed=size_text(needed + margin),
        )


def _check_shm(facts: HostFacts, need: HostNeed, tables: HostTables) -> Iterator[Finding]:
    several = len(reserved_gpus(facts, need)) > 1 or len(need.gpu_indices or ()) > 1
    minimum = tables.limits.shm_min_bytes
    if need.ipc_host and need.shm_size_bytes is not None:
        yield tables.book.tell("shm-size-ignored", where="shm_size")
    size = facts.shm_bytes if need.ipc_host else need.shm_size_bytes
    if not several or size is None or size >= minimum:
        return
    yield tables.book.tell(
        "shm-too-small",
        f"{'host /dev/shm' if need.ipc_host else 'shm_size'}: {size} bytes",
        where="serve.shm_size_bytes",
        size=size_text(size),
        minimum=size_text(minimum),
        minimum_bytes=minimum,
    )


def _check_ulimits(facts: HostFacts, need: HostNeed, tables: HostTables) -> Iterator[Finding]:
    asked = {name: _soft(value) for name, value in need.ulimits.items()}
    if asked.get("stack") == -1:
        yield tables.book.tell("nccl-stack-unlimited", "ulimits.stack: -1", where="ulimits.stack")
    refused = [name for name in (facts.ulimits.refused if facts.ulimits else ()) if name in asked]
    too_much = [name for name in refused if name != "memlock" or asked[name] == -1]
    if too_much:
        limits = ", ".join(f"{name}: {asked[name]}" for name in too_much)
        said = "a short container with that limit was refused by the engine"
        yield tables.book.tell("rlimit-refused", said, where="ulimits", limits=limits)


def _soft(value: object) -> int | None:
    if isinstance(value, dict):
        value = value.get("soft", value.get("hard"))
    return value if isinstance(value, int) else None


def _check_cpuset(facts: HostFacts, need: HostNeed, tables: HostTables) -> Iterator[Finding]:
    there = facts.engine.cpus if facts.engine and facts.engine.cpus else facts.cpus
    if need.cpuset is None or there is None:
        return
    highest = max((int(part.rpartition("-")[2]) for part in need.cpuset.split(",") if part), default=0)
    if highest >= there:
        said = f"CPUs of the engine: 0-{there - 1}"
        yield tables.book.tell(
            "cpuset-not-on-this-host", said, where="cpuset", cpuset=need.cpuset, there=there
        )
