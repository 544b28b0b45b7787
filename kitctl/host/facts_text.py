"""How do host facts read for a person, in a dozen lines?"""

from __future__ import annotations

from collections import Counter

from kitctl.host.facts import Disk, HostFacts
from kitctl.host.topology import classify

_GPU_WAYS = {"nvidia": "GPUs by runtime hook", "cdi": "GPUs by CDI", "none": "no way to give GPUs"}


def facts_lines(facts: HostFacts) -> list[str]:
    """The facts that matter first; what is unknown stands there with its reason."""
    return [
        f"host     {_join(facts.os, facts.kernel, _count(facts.cpus, 'CPUs'), _gib(facts.ram_total_bytes, 'RAM'))}",
        f"gpus     {_gpus(facts)}",
        f"driver   {_driver(facts)}",
        f"links    {_links(facts)}",
        f"engine   {_engine(facts)}",
        *(f"disk     {_disk(disk)}" for disk in facts.disks or ()),
        *(f"running  {c.name}{f' ({c.stack})' if c.stack else ''}" for c in facts.containers or ()),
        *(f"unknown  {path}: {reason}" for path, reason in facts.unknown.items()),
    ]


def _join(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part) or "unknown"


def _disk(disk: Disk) -> str:
    return f"{disk.path}: {disk.free_bytes / 1e9:.1f} GB free of {disk.total_bytes / 1e9:.1f} GB"


def _count(number: int | None, what: str) -> str | None:
    return f"{number} {what}" if number is not None else None


def _gib(size: int | None, what: str) -> str | None:
    return f"{size / 1e9:.0f} GB {what}" if size is not None else None


def _gpus(facts: HostFacts) -> str:
    if facts.gpus is None:
        return f"unknown: {facts.unknown.get('gpus', 'not asked')}"
    kinds = Counter((gpu.name, gpu.memory_total_mib, gpu.compute_capability) for gpu in facts.gpus)
    named = [
        f"{count}x {name} ({_join(_count(memory, 'MiB'), f'compute capability {arch}' if arch else None)})"
        for (name, memory, arch), count in kinds.items()
    ]
    busy = [
        f"GPU{gpu.index} {gpu.memory_used_mib} MiB" for gpu in facts.gpus if (gpu.memory_used_mib or 0) > 511
    ]
    return _join(*named, f"in use: {', '.join(busy)}" if busy else None) if named else "none"


def _driver(facts: HostFacts) -> str:
    if facts.driver is None:
        return "unknown"
    return _join(
        facts.driver.version,
        f"CUDA {facts.driver.cuda}" if facts.driver.cuda else None,
        facts.driver.failure,
    )


def _links(facts: HostFacts) -> str:
    if facts.topology is None:
        return f"unknown: {facts.unknown.get('topology', 'not asked')}"
    verdict = classify(facts.topology, facts.topology.gpu_indices)
    return f"{verdict.links or 'unknown'}: {verdict.reason}"


def _engine(facts: HostFacts) -> str:
    engine = facts.engine
    if engine is None:
        return f"unknown: {facts.unknown.get('engine', 'not asked')}"
    return _join(
        f"docker {engine.version}",
        f"compose {engine.compose_version}" if engine.compose_version else None,
        f"buildx {engine.buildx_version}" if engine.buildx_version else None,
        _GPU_WAYS.get(engine.gpu_driver or ""),
        "rootless" if engine.rootless else None,
    )
