"""What do nvidia-smi's answers amount to: GPUs, driver and topology, each with reasons where unknown?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from kitctl.host.facts import Driver, Gpu, GpuProcess, Topology, Unknown
from kitctl.host.probes import Answer, Answers
from kitctl.host.read_p2p import P2pTable, read_p2p
from kitctl.host.read_proc import read_gpu_sysfs, sysfs_pci_id
from kitctl.host.read_smi import (
    GpuDetail,
    GpuRows,
    SmiXml,
    read_compute_apps,
    read_gpu_list,
    read_gpu_query,
    read_module_version,
    read_nvlink_state,
    read_smi_version,
    read_smi_xml,
)
from kitctl.host.read_topology import read_topology


@dataclass(frozen=True, kw_only=True)
class GpuFacts:
    """GPUs, driver and links; ``unknown`` holds the reasons."""

    gpus: tuple[Gpu, ...] | None
    driver: Driver | None = None
    topology: Topology | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)


def pci_ids(gpus: Iterable[Gpu]) -> tuple[str, ...]:
    """The GPUs' PCI ids as sysfs spells them."""
    return tuple(sysfs_pci_id(gpu.pci_bus_id) for gpu in gpus if gpu.pci_bus_id)


def read_gpus(answers: Answers) -> GpuFacts:
    """The GPUs with what nvidia-smi alone says of them."""
    queried, xml = _rows(answers.get("smi-query")), read_smi_xml(_out(answers, "smi-xml"))
    unknown: dict[str, str] = {}
    rows = _rows_without_query(answers, xml) if isinstance(queried, Unknown) else queried
    if isinstance(queried, Unknown):
        unknown["gpus" if rows is None else "gpus.compute_capability"] = queried.reason
    if rows is None:
        return GpuFacts(gpus=None, unknown=unknown)
    if isinstance(xml, Unknown):
        unknown["gpus.throttle_reasons"] = unknown["gpus.ecc_uncorrected"] = _reason(answers, "smi-xml", xml)
    apps = read_compute_apps(_out(answers, "smi-apps")) if _is_ok(answers, "smi-apps") else {}
    links = read_nvlink_state(_out(answers, "nvlink"))
    split = {gpu.uuid for gpu in read_gpu_list(_out(answers, "smi-list")) if gpu.mig_enabled}
    gpus = tuple(_with_detail(gpu, _detail_of(gpu, xml), links.get(gpu.index)) for gpu in rows.gpus)
    gpus = tuple(msgspec.structs.replace(g, mig_enabled=True) if g.uuid in split else g for g in gpus)
    if not isinstance(apps, Unknown) and _is_ok(answers, "smi-apps"):
        gpus = tuple(_with_apps(gpu, apps) for gpu in gpus)
    if any(gpu.processes is None for gpu in gpus):
        unknown["gpus.processes"] = "neither nvidia-smi -q -x nor --query-compute-apps names the processes"
    return GpuFacts(gpus=gpus, unknown=unknown)


def gpu_facts(answers: Answers, containers: Mapping[int, str]) -> GpuFacts:
    """All facts on GPUs. ``containers`` names the container of each process that is in one."""
    read = read_gpus(answers)
    sysfs = read_gpu_sysfs(_out(answers, "gpu-sysfs"))
    gpus = tuple(_placed(gpu, sysfs, containers) for gpu in read.gpus) if read.gpus is not None else None
    unknown = dict(read.unknown)
    driver = _driver(answers, unknown, has_gpus=gpus is not None)
    topology = _topology(answers, unknown)
    return GpuFacts(gpus=gpus, driver=driver, topology=topology, unknown=unknown)


def _rows(answer: Answer | None) -> GpuRows | Unknown:
    if answer is None:
        return Unknown(reason="not asked")
    nothing = "No devices were found" in answer.stdout
    if not answer.ok and not nothing:
        return Unknown(reason=answer.why())
    fields = " ".join(answer.argv).partition("--query-gpu=")[2].partition(" ")[0].split(",")
    return read_gpu_query(answer.stdout, fields)


def _rows_without_query(answers: Answers, xml: SmiXml | Unknown) -> GpuRows | None:
    """The GPUs by nvidia-smi's XML, else by its list, where the query gave none."""
    if isinstance(xml, SmiXml) and xml.gpus:
        return GpuRows(gpus=xml.gpus, driver_version=xml.driver_version)
    listed = read_gpu_list(_out(answers, "smi-list"))
    return GpuRows(gpus=listed, driver_version=None) if listed and _is_ok(answers, "smi-list") else None


def _is_ok(answers: Answers, name: str) -> bool:
    return name in answers and answers[name].ok


def _out(answers: Answers, name: str) -> str:
    return answers[name].stdout if name in answers else ""


def _reason(answers: Answers, name: str, unknown: Unknown) -> str:
    if name not in answers:
        return "not asked"
    return unknown.reason if answers[name].ok else answers[name].why()


def _detail_of(gpu: Gpu, xml: SmiXml | Unknown) -> GpuDetail | None:
    if isinstance(xml, Unknown):
        return None
    return next((one for one in xml.details if one.pci_bus_id == gpu.pci_bus_id), None)


def _with_detail(gpu: Gpu, detail: GpuDetail | None, links: tuple[int, int] | None) -> Gpu:
    linked = msgspec.structs.replace(
        gpu, nvlink_links=links[0] if links else None, nvlink_links_active=links[1] if links else None
    )
    if detail is None:
        return linked
    return msgspec.structs.replace(
        linked,
        throttle_reasons=detail.throttle_reasons,
        ecc_uncorrected=detail.ecc_uncorrected,
        bar1_total_mib=detail.bar1_total_mib,
        fabric_state=detail.fabric_state,
        recovery_action=detail.recovery_action,
        processes=detail.processes,
    )


def _with_apps(gpu: Gpu, apps: Mapping[str, tuple[GpuProcess, ...]]) -> Gpu:
    if gpu.processes is not None or gpu.uuid is None:
        return gpu
    return msgspec.structs.replace(gpu, processes=apps.get(gpu.uuid, ()))


def _placed(
    gpu: Gpu, sysfs: Mapping[str, tuple[int | None, str | None]], containers: Mapping[int, str]
) -> Gpu:
    node, cpus = sysfs.get(sysfs_pci_id(gpu.pci_bus_id), (None, None)) if gpu.pci_bus_id else (None, None)
    processes = gpu.processes
    if processes is not None:
        processes = tuple(msgspec.structs.replace(p, container=containers.get(p.pid)) for p in processes)
    return msgspec.structs.replace(gpu, numa_node=node, local_cpus=cpus, processes=processes)


def _driver(answers: Answers, unknown: dict[str, str], *, has_gpus: bool) -> Driver | None:
    rows, xml = _rows(answers.get("smi-query")), read_smi_xml(_out(answers, "smi-xml"))
    query = rows.driver_version if isinstance(rows, GpuRows) else None
    by_xml = xml.driver_version if isinstance(xml, SmiXml) else None
    cuda = xml.cuda if isinstance(xml, SmiXml) else None
    cuda = cuda or read_smi_version(_out(answers, "smi-version"))
    module = read_module_version(_out(answers, "module"))
    failure = None if has_gpus else _smi_failure(answers.get("smi-query"))
    version = query or by_xml
    if version is None:
        unknown["driver.version"] = unknown.get("gpus", "nvidia-smi names no driver version")
    if cuda is None:
        unknown["driver.cuda"] = unknown.get("gpus", "nvidia-smi names no CUDA version")
    if version is None and module is None and failure is None:
        return None
    packages = tuple(_out(answers, "packages").splitlines()) if "packages" in answers else ()
    installed = tuple(line for line in packages if line.startswith(("install ", "hold ")))
    return Driver(
        version=version, cuda=cuda, module_version=module, failure=failure, packages=installed or None
    )


def _smi_failure(answer: Answer | None) -> str | None:
    """What nvidia-smi said when it ran and failed, or that it hung; ``None`` when it is not there."""
    if answer is None or answer.ok or "No devices were found" in answer.stdout:
        return None
    if answer.exit_code is None and "no answer within" not in (answer.failure or ""):
        return None
    said = next((line for line in f"{answer.stdout}\n{answer.stderr}".splitlines() if line.strip()), None)
    return answer.failure or (said.strip() if said else f"exit code {answer.exit_code}")


def _topology(answers: Answers, unknown: dict[str, str]) -> Topology | None:
    if not _is_ok(answers, "topology"):
        unknown["topology"] = answers["topology"].why() if "topology" in answers else "not asked"
        return None
    read = read_topology(_out(answers, "topology"))
    if isinstance(read, Unknown):
        unknown["topology"] = read.reason
        return None
    reads, writes = (_p2p(answers, name, read, unknown) for name in ("p2p-read", "p2p-write"))
    return msgspec.structs.replace(
        read,
        p2p_read_ok=reads.ok() if reads else None,
        p2p_write_ok=writes.ok() if writes else None,
        p2p_status=reads.status if reads else None,
    )


def _p2p(answers: Answers, name: str, topology: Topology, unknown: dict[str, str]) -> P2pTable | None:
    path = f"topology.{name.replace('-', '_')}_ok"
    read = read_p2p(_out(answers, name)) if _is_ok(answers, name) else None
    if isinstance(read, P2pTable) and read.gpu_indices == topology.gpu_indices:
        return read
    unknown[path] = read.reason if isinstance(read, Unknown) else _lost(answers, name)
    return None


def _lost(answers: Answers, name: str) -> str:
    return answers[name].why() if name in answers else "not asked"
