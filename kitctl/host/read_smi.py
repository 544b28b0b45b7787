"""What does nvidia-smi say of GPUs, driver and processes? Pure readers of its CSV, XML and version output."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kitctl.host.facts import Gpu, GpuProcess, Unknown

_BAD_FIELD = re.compile(r'Field "([^"]+)" is not a valid field to query')
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_VERSION = re.compile(r"\d+(?:\.\d+)+")


def unknown_field(text: str) -> str | None:
    """The field that this driver's nvidia-smi does not know, when that is what ``text`` says."""
    found = _BAD_FIELD.search(text)
    return found.group(1) if found else None


@dataclass(frozen=True, kw_only=True)
class GpuRows:
    """The GPUs of one query and the driver version that it names."""

    gpus: tuple[Gpu, ...]
    driver_version: str | None


def read_gpu_query(text: str, fields: Sequence[str]) -> GpuRows | Unknown:
    """The GPUs in the CSV of ``--query-gpu`` with ``fields``; a header line names its own fields instead.

    ``[N/A]``, ``[Not Supported]`` and the like are unknown, never 0. A host without GPUs gives none.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and lines[0].strip() == "No devices were found":
        return GpuRows(gpus=(), driver_version=None)
    names = tuple(fields)
    if lines and not _cells(lines[0])[0][:1].isdigit() and "name" in _field_names(lines[0]):
        names, lines = _field_names(lines[0]), lines[1:]
    rows = [dict(zip(names, _cells(line), strict=True)) for line in lines if len(_cells(line)) == len(names)]
    if not rows or len(rows) != len(lines):
        strange = next((line for line in lines if len(_cells(line)) != len(names)), "no lines")
        return Unknown(reason=f"nvidia-smi --query-gpu answered: {strange.strip()[:120]}")
    gpus = tuple(_gpu(row, at) for at, row in enumerate(rows))
    if any(gpu is None for gpu in gpus):
        return Unknown(reason=f"nvidia-smi --query-gpu answered: {lines[0].strip()[:120]}")
    return GpuRows(
        gpus=tuple(gpu for gpu in gpus if gpu is not None),
        driver_version=_text(rows[0].get("driver_version")),
    )


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split(",")]


def _field_names(line: str) -> tuple[str, ...]:
    return tuple(cell.partition(" [")[0] for cell in _cells(line))


def _gpu(row: dict[str, str], position: int) -> Gpu | None:
    index = _whole(row["index"]) if "index" in row else position
    name = _text(row.get("name"))
    if index is None or name is None:
        return None
    return Gpu(
        index=index,
        name=name,
        uuid=_text(row.get("uuid")),
        compute_capability=_text(row.get("compute_cap")),
        memory_total_mib=_whole(row.get("memory.total")),
        memory_used_mib=_whole(row.get("memory.used")),
        pci_bus_id=_text(row.get("pci.bus_id")),
        pcie_width=_whole(row.get("pcie.link.width.current")),
        pcie_width_max=_whole(row.get("pcie.link.width.max")),
        pcie_generation=_whole(row.get("pcie.link.gen.current")),
        pcie_generation_max=_whole(row.get("pcie.link.gen.max")),
        power_limit_w=_decimal(row.get("power.limit")),
        power_limit_max_w=_decimal(row.get("power.max_limit")),
        mig_enabled=_switch(row.get("mig.mode.current")),
    )


@dataclass(frozen=True, kw_only=True)
class GpuDetail:
    """What only the XML says of one GPU, by position."""

    uuid: str | None
    pci_bus_id: str | None
    throttle_reasons: tuple[str, ...] | None
    ecc_uncorrected: int | None
    bar1_total_mib: int | None
    fabric_state: str | None
    recovery_action: str | None
    processes: tuple[GpuProcess, ...] | None


@dataclass(frozen=True, kw_only=True)
class SmiXml:
    """``nvidia-smi -q -x``: the CUDA that the driver offers, and each GPU's details.

    ``gpus`` are the same GPUs with what the query would say of them, save their compute capability.
    """

    driver_version: str | None
    cuda: str | None
    details: tuple[GpuDetail, ...]
    gpus: tuple[Gpu, ...] = ()


def read_smi_xml(text: str) -> SmiXml | Unknown:
    """The XML of ``nvidia-smi -q -x``; lines before and after it are passed over."""
    start, end = text.find("<nvidia_smi_log>"), text.find("</nvidia_smi_log>")
    if start < 0 or end < 0:
        return Unknown(reason="nvidia-smi -q -x gave no whole XML")
    try:
        root = ElementTree.fromstring(text[start : end + len("</nvidia_smi_log>")])
    except ElementTree.ParseError as broken:
        return Unknown(reason=f"nvidia-smi -q -x gave XML that cannot be read: {broken}")
    return SmiXml(
        driver_version=_text(root.findtext("driver_version")),
        cuda=_version(root.findtext("cuda_version")),
        details=tuple(_detail(gpu) for gpu in root.findall("gpu")),
        gpus=tuple(_gpu_of_xml(gpu, at) for at, gpu in enumerate(root.findall("gpu"))),
    )


def _gpu_of_xml(gpu: ElementTree.Element, position: int) -> Gpu:
    link, power = "pci/pci_gpu_link_info", gpu.find("gpu_power_readings")
    power = power if power is not None else gpu.find("power_readings")
    return Gpu(
        index=position,
        name=_text(gpu.findtext("product_name")) or "unknown",
        uuid=_text(gpu.findtext("uuid")),
        memory_total_mib=_whole(gpu.findtext("fb_memory_usage/total")),
        memory_used_mib=_whole(gpu.findtext("fb_memory_usage/used")),
        pci_bus_id=_text(gpu.findtext("pci/pci_bus_id")),
        pcie_width=_whole(gpu.findtext(f"{link}/link_widths/current_link_width")),
        pcie_width_max=_whole(gpu.findtext(f"{link}/link_widths/max_link_width")),
        pcie_generation=_whole(gpu.findtext(f"{link}/pcie_gen/current_link_gen")),
        pcie_generation_max=_whole(gpu.findtext(f"{link}/pcie_gen/max_link_gen")),
        power_limit_w=_limit_of(power, "current_power_limit") or _limit_of(power, "power_limit"),
        power_limit_max_w=_limit_of(power, "max_power_limit"),
        mig_enabled=_switch(gpu.findtext("mig_mode/current_mig")),
    )


def _limit_of(power: ElementTree.Element | None, name: str) -> float | None:
    return _decimal(power.findtext(name)) if power is not None else None


def _detail(gpu: ElementTree.Element) -> GpuDetail:
    return GpuDetail(
        uuid=_text(gpu.findtext("uuid")),
        pci_bus_id=_text(gpu.findtext("pci/pci_bus_id")),
        throttle_reasons=_active_reasons(gpu),
        ecc_uncorrected=_uncorrected(gpu),
        bar1_total_mib=_whole(gpu.findtext("bar1_memory_usage/total")),
        fabric_state=_text(gpu.findtext("fabric/state")),
        recovery_action=_text(gpu.findtext("gpu_recovery_action")),
        processes=_processes(gpu.find("processes")),
    )


def _active_reasons(gpu: ElementTree.Element) -> tuple[str, ...] | None:
    """Why clocks are lowered now; the element is ``clocks_throttle_reasons`` before driver 535."""
    for kind in ("clocks_event_reason", "clocks_throttle_reason"):
        block = gpu.find(f"{kind}s")
        if block is not None:
            return tuple(one.tag.removeprefix(f"{kind}_") for one in block if one.text == "Active")
    return None


def _uncorrected(gpu: ElementTree.Element) -> int | None:
    """Uncorrected ECC errors since the driver was loaded; ``None`` without ECC."""
    block = gpu.find("ecc_errors/volatile")
    if block is None:
        return None
    counts = [_whole(one.text) for one in block if "uncorrectable" in one.tag]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _processes(block: ElementTree.Element | None) -> tuple[GpuProcess, ...] | None:
    if block is None or (block.text or "").strip() in ("N/A", "[N/A]", "Insufficient Permissions"):
        return None
    found = []
    for one in block.findall("process_info"):
        pid = _whole(one.findtext("pid"))
        if pid is not None:
            name, used = _text(one.findtext("process_name")), _whole(one.findtext("used_memory"))
            found.append(GpuProcess(pid=pid, name=name, used_mib=used))
    return tuple(found)


def read_gpu_list(text: str) -> tuple[Gpu, ...]:
    """The GPUs of ``nvidia-smi -L``: index, name and UUID; MIG devices below one tell that it is split."""
    found: list[Gpu] = []
    for line in text.splitlines():
        named = re.match(r"GPU (\d+): (.+?) \(UUID: (GPU-[^)]+)\)", line)
        if named:
            found.append(Gpu(index=int(named[1]), name=named[2], uuid=named[3]))
        elif found and re.match(r"\s+MIG ", line):
            found[-1] = msgspec.structs.replace(found[-1], mig_enabled=True)
    return tuple(found)


def read_compute_apps(text: str) -> dict[str, tuple[GpuProcess, ...]] | Unknown:
    """Processes by GPU UUID from ``--query-compute-apps=gpu_uuid,pid,process_name,used_memory``."""
    found: dict[str, tuple[GpuProcess, ...]] = {}
    for line in text.splitlines():
        cells = _cells(line)
        if not line.strip() or cells[0] == "gpu_uuid":
            continue
        pid = _whole(cells[1]) if len(cells) >= 4 else None
        if pid is None:
            return Unknown(reason=f"nvidia-smi --query-compute-apps answered: {line.strip()[:120]}")
        process = GpuProcess(pid=pid, name=_text(",".join(cells[2:-1])), used_mib=_whole(cells[-1]))
        found[cells[0]] = (*found.get(cells[0], ()), process)
    return found


def read_smi_version(text: str) -> str | None:
    """The CUDA version that ``nvidia-smi --version`` (or its table head) names."""
    found = re.search(r"CUDA Version\s*:\s*(\d+\.\d+)", text)
    return found.group(1) if found else None


def read_nvlink_state(text: str) -> dict[int, tuple[int, int]]:
    """Per GPU index: (links, links that are up) from ``nvidia-smi nvlink -s``; empty without NVLink."""
    found: dict[int, tuple[int, int]] = {}
    gpu = None
    for line in text.splitlines():
        head = re.match(r"GPU (\d+):", line)
        link = re.match(r"\s*Link \d+: *(.+)", line)
        if head:
            gpu = int(head.group(1))
        elif link and gpu is not None:
            links, up = found.get(gpu, (0, 0))
            found[gpu] = (links + 1, up + ("GB/s" in link.group(1)))
    return found


def read_module_version(text: str) -> str | None:
    """The loaded kernel module's version from /proc/driver/nvidia/version."""
    line = next((line for line in text.splitlines() if line.startswith("NVRM version")), "")
    return _version(line)


def _text(value: str | None) -> str | None:
    """A value as printed; ``None`` for nvidia-smi's many ways of not knowing."""
    plain = (value or "").strip()
    unknown = {"", "N/A", "[N/A]", "[Not Supported]", "Not Supported", "[Unknown Error]", "Unknown Error"}
    hidden = plain in unknown or plain.startswith(("[GPU requires reset", "[Insufficient", "Requested func"))
    return None if hidden else plain


def _whole(value: str | None) -> int | None:
    """``143771 MiB``, ``16x``, ``16`` -> the number."""
    found = _NUMBER.match(_text(value) or "")
    return int(float(found.group())) if found else None


def _decimal(value: str | None) -> float | None:
    found = _NUMBER.match(_text(value) or "")
    return float(found.group()) if found else None


def _switch(value: str | None) -> bool | None:
    return {"Enabled": True, "Disabled": False}.get((value or "").strip())


def _version(value: str | None) -> str | None:
    found = _VERSION.search(value or "")
    return found.group() if found else None
