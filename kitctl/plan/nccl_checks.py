"""Will NCCL read the stack's environment as it is meant? NCCL ignores wrong values without a word."""

from __future__ import annotations

from collections.abc import Iterator

from kitctl.finding import Finding, Severity
from kitctl.host.facts import HostFacts
from kitctl.host.topology import LinkClass, classify, spans_numa_nodes
from kitctl.kit.near import near_name
from kitctl.plan.host_need import HostNeed
from kitctl.plan.host_tables import HostTables


def check_environment(facts: HostFacts, need: HostNeed, tables: HostTables) -> Iterator[Finding]:
    """Findings on NCCL's variables and on those that choose GPUs, for the links of the reserved GPUs."""
    links = _links(facts, need)
    for name, value in sorted(need.environment.items()):
        if name in tables.nccl.level_variables:
            yield from _check_level(name, value, links, tables)
        elif name.startswith("NCCL_"):
            yield from _check_variable(name, value, tables)
    yield from _check_switches(need, links, tables)
    yield from _check_graph_file(need, tables)
    yield from _check_gpu_choosers(need, tables)
    yield from _check_amd(facts, need, links, tables)


def _links(facts: HostFacts, need: HostNeed) -> LinkClass | None:
    if facts.topology is None:
        return None
    indices = need.gpu_indices if need.gpu_indices is not None else facts.topology.gpu_indices
    return classify(facts.topology, indices).links


def _check_level(name: str, value: str, links: LinkClass | None, tables: HostTables) -> Iterator[Finding]:
    names = tables.nccl
    said, where = f"{name}={value}", f"environment.{name}"
    if value in names.levels:
        if value in ("NVL", "LOC") and links is LinkClass.PCIE and name == "NCCL_P2P_LEVEL":
            yield tables.book.tell("nccl-level-off-on-pcie", said, where=where, name=name, value=value)
    elif value.isdigit():
        meaning = names.legacy_levels.get(value, names.levels[-1])
        yield tables.book.tell(
            "p2p-level-5-means-SYS", said, where=where, name=name, value=value, meaning=meaning
        )
    else:
        plain = value.strip().upper()
        meaning = names.foreign_levels.get(plain, plain if plain in names.levels else "/".join(names.levels))
        yield tables.book.tell(
            "nccl-level-ignored", said, where=where, name=name, value=value, meaning=meaning
        )


def _check_variable(name: str, value: str, tables: HostTables) -> Iterator[Finding]:
    where = f"environment.{name}"
    accepts = tables.nccl.variables.get(name)
    if accepts is None:
        known = (*tables.nccl.variables, *tables.nccl.level_variables)
        near = near_name(name, known)
        hint = f"; did you mean {near}?" if near else ""
        yield tables.book.tell("nccl-variable-unknown", f"{name}={value}", where=where, name=name, near=hint)
    elif not _is_accepted(value, accepts):
        accepted = "a whole number from 1" if accepts == "int" else " ".join(accepts)
        yield tables.book.tell(
            "nccl-value-ignored", f"{name}={value}", where=where, name=name, value=value, accepted=accepted
        )


def _is_accepted(value: str, accepts: str | tuple[str, ...]) -> bool:
    if accepts == "int":
        return value.isdigit() and int(value) > 0
    return bool(value.strip()) if accepts == "text" else value in accepts


def _check_switches(need: HostNeed, links: LinkClass | None, tables: HostTables) -> Iterator[Finding]:
    several = need.gpu_indices is None or len(need.gpu_indices) > 1
    if need.environment.get("NCCL_SHM_DISABLE") == "1" and several:
        where = "environment.NCCL_SHM_DISABLE"
        yield tables.book.tell("nccl-shm-disabled", "NCCL_SHM_DISABLE=1", where=where)
    if need.environment.get("NCCL_P2P_DISABLE") == "1" and several:
        severity = Severity.NOTE if links is LinkClass.PCIE else None
        where = "environment.NCCL_P2P_DISABLE"
        yield tables.book.tell("nccl-p2p-disabled", "NCCL_P2P_DISABLE=1", where=where, severity=severity)


def _check_graph_file(need: HostNeed, tables: HostTables) -> Iterator[Finding]:
    wrong = sorted({size for size in need.group_sizes if size > 1 and size != need.graph_file_gpus})
    if need.graph_file_gpus is not None and wrong:
        groups = " and ".join(str(size) for size in wrong)
        said = f"NCCL_GRAPH_FILE={need.environment.get('NCCL_GRAPH_FILE', '')}"
        yield tables.book.tell("nccl-graph-file-size", said, made=need.graph_file_gpus, groups=groups)


def _check_gpu_choosers(need: HostNeed, tables: HostTables) -> Iterator[Finding]:
    visible = need.environment.get("NVIDIA_VISIBLE_DEVICES")
    if visible is not None and need.reservation_ids:
        said = f"NVIDIA_VISIBLE_DEVICES={visible}"
        reserved = f"reservation: {' '.join(need.reservation_ids)}"
        where = "environment.NVIDIA_VISIBLE_DEVICES"
        yield tables.book.tell("reservation-overridden", said, reserved, where=where)
    cuda = need.environment.get("CUDA_VISIBLE_DEVICES", "")
    if any(not part.strip().isdigit() for part in cuda.split(",") if part):
        yield tables.book.tell("cuda-devices-by-uuid", where="environment.CUDA_VISIBLE_DEVICES", value=cuda)


def _check_amd(
    facts: HostFacts, need: HostNeed, links: LinkClass | None, tables: HostTables
) -> Iterator[Finding]:
    is_amd = facts.cpu_vendor == "AuthenticAMD"
    if not is_amd or links is not LinkClass.PCIE or facts.topology is None:
        return
    indices = need.gpu_indices if need.gpu_indices is not None else facts.topology.gpu_indices
    tuned = any(
        name in need.environment for name in ("NCCL_GRAPH_FILE", "NCCL_MIN_NCHANNELS", "NCCL_TUNER_PLUGIN")
    )
    if not tuned and spans_numa_nodes(facts.topology, indices):
        yield tables.book.tell("amd-sockets-untuned", "two AMD sockets between the reserved GPUs")
