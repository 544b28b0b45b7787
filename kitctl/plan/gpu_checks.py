"""Are the reserved GPUs free, alike, whole and running at their full speed?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from kitctl.finding import Finding, Severity
from kitctl.host.facts import Gpu, GpuProcess, HostFacts
from kitctl.host.topology import LinkClass, best_gpu_set, classify, spans_numa_nodes
from kitctl.plan.host_need import HostNeed, reserved_gpus
from kitctl.plan.host_tables import HostTables
from kitctl.plan.sizes import size_text

_MIB = 1024 * 1024
_FABRIC_DOWN = ("In Progress", "Not Started")


def check_gpus(facts: HostFacts, need: HostNeed | None, tables: HostTables) -> Iterator[Finding]:
    """Findings on each GPU of the need (all of the host's without one), then on the set."""
    gpus = reserved_gpus(facts, need or HostNeed())
    for gpu in gpus:
        yield from _check_memory(gpu, facts, need, tables)
        yield from _check_state(gpu, tables, is_reserved=need is not None)
        yield from _check_speed(gpu, tables)
    if len(gpus) > 1:
        yield from _check_set(gpus, facts, need, tables)
        yield from _check_bar1(gpus, facts, tables)


def _check_memory(gpu: Gpu, facts: HostFacts, need: HostNeed | None, tables: HostTables) -> Iterator[Finding]:
    where = f"GPU{gpu.index}"
    if gpu.memory_total_mib is None:
        ram = size_text(facts.ram_total_bytes) if facts.ram_total_bytes else "unknown"
        yield tables.book.tell("gpu-memory-unknown", where=where, index=gpu.index, name=gpu.name, ram=ram)
        return
    used = _foreign_mib(gpu, facts, need)
    if used is None or used < tables.limits.used_memory_warn_mib:
        return
    share = used / gpu.memory_total_mib
    is_much = share >= tables.limits.used_memory_block_share
    yield tables.book.tell(
        "gpu-occupied-by-other-process" if is_much else "gpu-memory-in-use",
        f"memory.used {gpu.memory_used_mib} MiB of {gpu.memory_total_mib} MiB",
        *(_process_text(process) for process in gpu.processes or ()),
        where=where,
        severity=Severity.WARN if is_much and need is None else None,
        index=gpu.index,
        used=used,
        share=f"{share:.0%}",
        holders=_holders(gpu),
        how=_how_to_stop(gpu),
    )


def _foreign_mib(gpu: Gpu, facts: HostFacts, need: HostNeed | None) -> int | None:
    """Memory in use that is not the stack's own."""
    if gpu.memory_used_mib is None or need is None or need.own_project is None:
        return gpu.memory_used_mib
    own = {one.name for one in facts.containers or () if one.project == need.own_project}
    held = [process.used_mib or 0 for process in gpu.processes or () if process.container in own]
    return max(0, gpu.memory_used_mib - sum(held))


def _process_text(process: GpuProcess) -> str:
    used = f" {process.used_mib} MiB" if process.used_mib is not None else ""
    inside = f" in container {process.container}" if process.container else ""
    return f"pid {process.pid} {process.name or 'of unknown name'}{used}{inside}"


def _holders(gpu: Gpu) -> str:
    if not gpu.processes:
        return "no process is named, so it may be an orphan or another's namespace"
    return ", ".join(
        f"{process.container or process.name or 'a process'} (pid {process.pid})" for process in gpu.processes
    )


def _how_to_stop(gpu: Gpu) -> str:
    containers = sorted({process.container for process in gpu.processes or () if process.container})
    if containers:
        return f"docker stop {' '.join(containers)}"
    pids = " ".join(str(process.pid) for process in gpu.processes or ())
    return f"see 'ps -fp {pids}'" if pids else f"see 'fuser -v /dev/nvidia{gpu.index}' on the host"


def _check_state(gpu: Gpu, tables: HostTables, *, is_reserved: bool) -> Iterator[Finding]:
    where = f"GPU{gpu.index}"
    if gpu.mig_enabled:
        severity = None if is_reserved else Severity.NOTE
        yield tables.book.tell("mig-enabled", gpu.name, where=where, severity=severity, index=gpu.index)
    if gpu.ecc_uncorrected:
        yield tables.book.tell("gpu-ecc-errors", where=where, index=gpu.index, count=gpu.ecc_uncorrected)
    if gpu.recovery_action not in (None, "None"):
        said = f"gpu_recovery_action {gpu.recovery_action}"
        yield tables.book.tell(
            "gpu-needs-reset", said, where=where, index=gpu.index, action=gpu.recovery_action
        )
    if gpu.fabric_state in _FABRIC_DOWN:
        said = f"fabric state {gpu.fabric_state}"
        yield tables.book.tell(
            "fabric-manager-down", said, where=where, index=gpu.index, state=gpu.fabric_state
        )


def _check_speed(gpu: Gpu, tables: HostTables) -> Iterator[Finding]:
    where = f"GPU{gpu.index}"
    if gpu.pcie_width and gpu.pcie_width_max and gpu.pcie_width < gpu.pcie_width_max:
        yield tables.book.tell(
            "pcie-width-reduced",
            f"pcie.link.width.current {gpu.pcie_width}, max {gpu.pcie_width_max}",
            where=where,
            index=gpu.index,
            width=gpu.pcie_width,
            most=gpu.pcie_width_max,
        )
    slowed = [reason for reason in gpu.throttle_reasons or () if reason in tables.throttle.warn]
    if slowed:
        reasons = ", ".join(slowed)
        yield tables.book.tell("gpu-throttled", reasons, where=where, index=gpu.index, reasons=reasons)
    limit, most = gpu.power_limit_w, gpu.power_limit_max_w
    if limit and most and limit < most * tables.limits.power_limit_note_share:
        yield tables.book.tell(
            "gpu-power-capped", where=where, index=gpu.index, limit=f"{limit:g}", most=f"{most:g}"
        )
    links, active = gpu.nvlink_links, gpu.nvlink_links_active
    if links and active is not None and 0 < active < links:
        yield tables.book.tell(
            "nvlink-links-down", where=where, index=gpu.index, links=links, down=links - active
        )


def _check_set(
    gpus: Sequence[Gpu], facts: HostFacts, need: HostNeed | None, tables: HostTables
) -> Iterator[Finding]:
    kinds = sorted({gpu.name for gpu in gpus})
    better = _better_set(gpus, facts)
    if len(kinds) > 1:
        yield tables.book.tell(
            "mixed-gpus",
            *(f"GPU{gpu.index} {gpu.name}" for gpu in gpus),
            severity=None if need is not None else Severity.NOTE,
            kinds=", ".join(kinds),
            proposal=f", for example {better}" if better else "",
        )
    elif need is not None and better and facts.topology is not None:
        reserved = _listed(gpu.index for gpu in gpus)
        yield tables.book.tell("reserved-gpus-cross-sockets", reserved=reserved, better=better)


def _better_set(gpus: Sequence[Gpu], facts: HostFacts) -> str | None:
    """GPUs of one kind, as many, of which all share a NUMA node, when the reserved ones do not or are mixed."""
    if facts.topology is None or facts.gpus is None:
        return None
    is_mixed = len({gpu.name for gpu in gpus}) > 1
    if not is_mixed and spans_numa_nodes(facts.topology, [gpu.index for gpu in gpus]) is not True:
        return None
    if classify(facts.topology, [gpu.index for gpu in gpus]).links is LinkClass.NVLINK_FULL:
        return None
    for name in sorted({gpu.name for gpu in facts.gpus}):
        alike = [gpu.index for gpu in facts.gpus if gpu.name == name]
        best = best_gpu_set(facts.topology, len(gpus), among=alike)
        if best is not None and (is_mixed or spans_numa_nodes(facts.topology, best.gpus) is False):
            return _listed(best.gpus)
    return None


def _listed(indices: Iterable[int]) -> str:
    return ",".join(str(index) for index in indices)


def _check_bar1(gpus: Sequence[Gpu], facts: HostFacts, tables: HostTables) -> Iterator[Finding]:
    """P2P over PCIe maps a peer's whole memory through its BAR1."""
    if facts.topology is None or not _has_pcie_pair(gpus, facts):
        return
    for gpu in gpus:
        if gpu.bar1_total_mib and gpu.memory_total_mib and gpu.bar1_total_mib < gpu.memory_total_mib:
            yield tables.book.tell(
                "small-bar1",
                where=f"GPU{gpu.index}",
                index=gpu.index,
                bar1=gpu.bar1_total_mib,
                total=gpu.memory_total_mib,
            )


def _has_pcie_pair(gpus: Sequence[Gpu], facts: HostFacts) -> bool:
    assert facts.topology is not None
    pairs = combinations([gpu.index for gpu in gpus], 2)
    return any(classify(facts.topology, pair).links is LinkClass.PCIE for pair in pairs)
