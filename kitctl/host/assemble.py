"""What do all answers of one host amount to? Facts, and for each that is missing the reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kitctl.host.assemble_gpus import GpuFacts, gpu_facts, pci_ids, read_gpus
from kitctl.host.facts import (
    Container,
    ContainerEngine,
    Disk,
    HostFacts,
    Listener,
    Ulimits,
    Unknown,
)
from kitctl.host.probes import Answers, disk_name
from kitctl.host.read_cdi import read_cdi_list, read_toolkit_version
from kitctl.host.read_docker import (
    lacks_gpu_driver,
    read_api_version,
    read_containers,
    read_docker_info,
    read_plugin_version,
    refuses_rlimit,
)
from kitctl.host.read_pci import read_acs_redirects
from kitctl.host.read_proc import (
    read_cgroups,
    read_cpuinfo,
    read_disk,
    read_kernel_gpu_errors,
    read_meminfo,
    read_numa,
    read_os_release,
    read_proc_tcp,
    read_ss,
    with_containers,
)

_UNTRIED = "not tried: it needs a short container of an image that the engine holds"
NOFILE_WANTED = 1048576
STACK_WANTED_BYTES = 67108864


@dataclass(frozen=True, kw_only=True)
class _Known:
    """Facts found so far and the reasons for those that were not."""

    unknown: dict[str, str] = field(default_factory=dict)

    def text(self, answers: Answers, name: str, path: str) -> str | None:
        """The answer's text when it succeeded; else notes why ``path`` is unknown."""
        answer = answers.get(name)
        if answer is not None and answer.ok:
            return answer.stdout
        self.unknown[path] = answer.why() if answer is not None else "not asked"
        return None

    def keep(self, value: Any, path: str, reason: str) -> Any:
        """``value``, noting ``reason`` when it is ``None``."""
        if value is None:
            self.unknown.setdefault(path, reason)
        return value


def first_pass(answers: Answers) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The PCI ids (sysfs spelling) of the GPUs and the pids on them: what the second round asks about."""
    gpus = read_gpus(answers)
    pids = {process.pid for gpu in gpus.gpus or () for process in gpu.processes or ()}
    return pci_ids(gpus.gpus or ()), tuple(sorted(pids))


def assemble_facts(
    answers: Answers,
    *,
    disks: Iterable[str],
    asked_at_s: float | None = None,
    probed_on: str = "here",
) -> HostFacts:
    """The facts in ``answers``. ``asked_at_s``: this machine's clock (Unix time) when the host's was read."""
    known = _Known()
    containers = _containers(answers, known)
    engine = _engine(answers, known)
    gpus = gpu_facts(answers, read_cgroups(_out(answers, "cgroups"), containers or ()))
    known.unknown.update(gpus.unknown)
    return HostFacts(
        gpus=gpus.gpus,
        driver=gpus.driver,
        topology=gpus.topology,
        engine=engine,
        containers=containers,
        ulimits=_ulimits(answers, known),
        disks=_disks(answers, disks, known),
        listeners=_listeners(answers, containers or (), known),
        fabric_manager_active=_fabric_manager(answers, known),
        acs_redirect_bridges=_acs(answers, gpus, known),
        kernel_gpu_errors=_kernel_errors(answers, known),
        **_system(answers, known, asked_at_s),
        probed_on=probed_on,
        unknown=dict(sorted(known.unknown.items())),
    )


def _out(answers: Answers, name: str) -> str:
    """What was printed, whatever the exit code: grep exits 1 or 2 when some files are not there."""
    return answers[name].stdout if name in answers else ""


def _system(answers: Answers, known: _Known, asked_at_s: float | None) -> dict[str, Any]:
    memory = read_meminfo(known.text(answers, "meminfo", "ram_total_bytes") or "")
    cpus, vendor = read_cpuinfo(known.text(answers, "cpuinfo", "cpus") or "")
    clock = (known.text(answers, "clock", "clock_utc") or "").strip()
    shm = known.text(answers, "shm", "shm_bytes")
    disk = read_disk(shm, "/dev/shm") if shm is not None else None
    release = known.text(answers, "os-release", "os")
    return {
        "os": read_os_release(release) if release is not None else None,
        "kernel": _line(known.text(answers, "uname", "kernel")),
        "kernel_command_line": _line(known.text(answers, "cmdline", "kernel_command_line")),
        "ram_total_bytes": memory.get("MemTotal"),
        "ram_available_bytes": memory.get("MemAvailable"),
        "cpus": cpus,
        "cpu_vendor": vendor,
        "shm_bytes": disk.total_bytes if disk else None,
        "numa_nodes": known.keep(read_numa(_out(answers, "numa")), "numa_nodes", "sysfs names no NUMA node"),
        "clock_utc": utc_text(int(clock)) if clock.isdigit() else None,
        "clock_skew_s": round(int(clock) - asked_at_s, 1) if clock.isdigit() and asked_at_s else None,
    }


def _line(text: str | None) -> str | None:
    return text.strip() or None if text is not None else None


def utc_text(unix_s: int) -> str:
    """Unix time as ISO 8601 UTC."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _containers(answers: Answers, known: _Known) -> tuple[Container, ...] | None:
    text = known.text(answers, "containers", "containers")
    read = read_containers(text) if text is not None else None
    if isinstance(read, Unknown):
        return known.keep(None, "containers", read.reason)  # type: ignore[no-any-return]  # None
    return read


def _engine(answers: Answers, known: _Known) -> ContainerEngine | None:
    answer = answers.get("docker-info")
    if answer is None:
        return known.keep(None, "engine", "not asked")  # type: ignore[no-any-return]  # None
    if answer.exit_code is None:
        return known.keep(None, "engine", answer.why())  # type: ignore[no-any-return]  # None
    read = read_docker_info(answer.stdout, exit_code=answer.exit_code, stderr=answer.stderr)
    if isinstance(read, Unknown):
        return known.keep(None, "engine", read.reason)  # type: ignore[no-any-return]  # None
    compose = known.text(answers, "compose", "engine.compose_version")
    buildx = known.text(answers, "buildx", "engine.buildx_version")
    cdi = read.cdi_devices if read.cdi_devices is not None else _cdi(answers)
    return msgspec.structs.replace(
        read,
        api_version=read_api_version(_out(answers, "docker-version")),
        compose_version=read_plugin_version(compose) if compose is not None else None,
        buildx_version=read_plugin_version(buildx) if buildx is not None else None,
        cdi_devices=known.keep(cdi, "engine.cdi_devices", _why(answers, "cdi")),
        gpu_driver=known.keep(
            _gpu_driver(answers, read, cdi), "engine.gpu_driver", _why(answers, "trial-hook")
        ),
        toolkit_version=read_toolkit_version(_out(answers, "toolkit")),
    )


def _why(answers: Answers, name: str) -> str:
    return answers[name].why() if name in answers else _UNTRIED


def _cdi(answers: Answers) -> tuple[str, ...] | None:
    answer = answers.get("cdi")
    return read_cdi_list(answer.stdout + "\n" + answer.stderr) if answer is not None and answer.ok else None


def _gpu_driver(answers: Answers, engine: ContainerEngine, cdi: tuple[str, ...] | None) -> str | None:
    """Hook mode never shows in ``docker info``: a short container settles it. CDI shows in its device list."""
    if engine.gpu_driver is not None:
        return engine.gpu_driver
    trial = answers.get("trial-hook")
    has_cdi = any(device.startswith("nvidia.com/gpu=") for device in cdi or ())
    if trial is not None and trial.exit_code is not None and not lacks_gpu_driver(trial.stderr):
        return "nvidia"
    if has_cdi:
        return "cdi"
    return "none" if trial is not None and lacks_gpu_driver(trial.stderr) else None


def _ulimits(answers: Answers, known: _Known) -> Ulimits | None:
    """What the engine granted to a short container, limit by limit."""
    granted = {name: _is_granted(answers, f"trial-{name}") for name in ("memlock", "nofile", "stack")}
    if set(granted.values()) == {None}:
        return known.keep(None, "ulimits", _why(answers, "trial-memlock"))  # type: ignore[no-any-return]  # None
    return Ulimits(
        memlock_unlimited=granted["memlock"],
        nofile_max=NOFILE_WANTED if granted["nofile"] else None,
        stack_max_bytes=STACK_WANTED_BYTES if granted["stack"] else None,
        refused=tuple(name for name, answer in granted.items() if answer is False),
    )


def _is_granted(answers: Answers, name: str) -> bool | None:
    """A container that reached its program had its limits set, even where that program is not there."""
    trial = answers.get(name)
    if trial is None or trial.exit_code is None:
        return None
    if refuses_rlimit(trial.stderr):
        return False
    return True if trial.ok or trial.exit_code in (126, 127) else None


def _disks(answers: Answers, disks: Iterable[str], known: _Known) -> tuple[Disk, ...] | None:
    found = []
    for path in dict.fromkeys(disks):
        disk = read_disk(_out(answers, disk_name(path)), path)
        if disk is None:
            known.keep(None, f"disks.{path}", _why(answers, disk_name(path)))
        else:
            found.append(disk)
    return tuple(found) or None


def _listeners(
    answers: Answers, containers: Iterable[Container], known: _Known
) -> tuple[Listener, ...] | None:
    ss, tcp = answers.get("listeners"), answers.get("tcp")
    if ss is not None and ss.ok:
        return with_containers(read_ss(ss.stdout), containers)
    if tcp is not None and tcp.stdout:
        return with_containers(read_proc_tcp(tcp.stdout), containers)
    return known.keep(None, "listeners", _why(answers, "listeners"))  # type: ignore[no-any-return]  # None


def _fabric_manager(answers: Answers, known: _Known) -> bool | None:
    """``systemctl is-active``: 0 active, 3 not; 4 means that there is no such unit."""
    answer = answers.get("fabric-manager")
    word = answer.stdout.strip() if answer is not None else ""
    if word in ("active", "inactive", "failed"):
        return word == "active"
    return known.keep(None, "fabric_manager_active", _why(answers, "fabric-manager"))  # type: ignore[no-any-return]  # None


def _acs(answers: Answers, gpus: GpuFacts, known: _Known) -> tuple[str, ...] | None:
    text = known.text(answers, "lspci", "acs_redirect_bridges")
    bus_ids = [gpu.pci_bus_id for gpu in gpus.gpus or () if gpu.pci_bus_id]
    if text is None:
        return None
    found = read_acs_redirects(text, bus_ids)
    return known.keep(found, "acs_redirect_bridges", "lspci shows ACS to root only")  # type: ignore[no-any-return]  # as read


def _kernel_errors(answers: Answers, known: _Known) -> tuple[str, ...] | None:
    text = known.text(answers, "dmesg", "kernel_gpu_errors")
    return read_kernel_gpu_errors(text) if text is not None else None
