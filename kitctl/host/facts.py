"""What does kitctl know of a host? Types only; a fact that could not be read is ``None`` with a reason.

``HostFacts.unknown`` maps a dotted path (``driver.version``, ``gpus``) to the reason why it is ``None``.
The JSON form (``kitctl doctor --json``) is read back by ``--facts FILE``.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader gives back instead of a fact that its text does not hold, and why."""

    reason: str


class Link(StrEnum):
    """How two GPUs reach each other, as nvidia-smi names it; ``NV`` stands for NV1, NV2, ... NV18.

    Listed from near to far. ``NODE`` has no NCCL name: NCCL calls such pairs PHB.
    """

    SELF = "X"
    NV = "NV"
    PIX = "PIX"
    PXB = "PXB"
    PHB = "PHB"
    NODE = "NODE"
    SYS = "SYS"


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A process that holds GPU memory."""

    pid: int
    name: str | None = None
    used_mib: int | None = None
    container: str | None = None


class Gpu(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One GPU, numbered as the driver numbers it (PCI order)."""

    index: int
    name: str
    uuid: str | None = None
    compute_capability: str | None = None
    memory_total_mib: int | None = None
    memory_used_mib: int | None = None
    pci_bus_id: str | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    power_limit_w: float | None = None
    throttle_reasons: tuple[str, ...] | None = None
    mig_enabled: bool | None = None
    ecc_uncorrected: int | None = None
    numa_node: int | None = None
    processes: tuple[GpuProcess, ...] | None = None


class Driver(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The NVIDIA driver: its version and the newest CUDA that it offers (``13.0``)."""

    version: str | None = None
    cuda: str | None = None


class Topology(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How GPUs are linked: ``links[i][j]`` is the name nvidia-smi prints (``NV18``, ``PIX``, ``SYS``, ``X``).

    Row and column order is ``gpu_indices``. A link that could not be read is ``None``.
    """

    gpu_indices: tuple[int, ...]
    links: tuple[tuple[str | None, ...], ...]
    numa_nodes: tuple[int | None, ...] = ()
    cpu_affinity: tuple[str | None, ...] = ()
    p2p_read_ok: tuple[tuple[bool | None, ...], ...] | None = None
    p2p_write_ok: tuple[tuple[bool | None, ...], ...] | None = None
    p2p_status: tuple[tuple[str | None, ...], ...] | None = None
    """What nvidia-smi prints for reads over P2P: ``OK``, ``GNS``, ``NS``, ``CNS``, ``TNS``, ``DR``, ``U``."""
    numa_node_count: int | None = None
    """NUMA nodes that the GPUs are on, also where no single node can be named for a GPU (``0-1``)."""
    nic_count: int | None = None


class ContainerEngine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The container engine as ``docker info`` and ``docker version`` describe it."""

    version: str | None = None
    api_version: str | None = None
    compose_version: str | None = None
    buildx_version: str | None = None
    runtimes: tuple[str, ...] = ()
    cdi_devices: tuple[str, ...] | None = None
    cgroup_driver: str | None = None
    cgroup_version: str | None = None
    storage_driver: str | None = None
    root_dir: str | None = None
    rootless: bool | None = None
    cpus: int | None = None
    memory_bytes: int | None = None
    gpu_driver: str | None = None
    """How GPUs reach a container: ``nvidia`` (runtime hook), ``cdi``, ``none``; ``None`` when not settled."""


class Ulimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether the engine may grant what an overlay asks for (an LXC host may not)."""

    memlock_unlimited: bool | None = None
    nofile_max: int | None = None
    stack_max_bytes: int | None = None


class Disk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Free space below one path that kitctl will write to."""

    path: str
    free_bytes: int
    total_bytes: int
    filesystem: str | None = None


class Listener(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A TCP port in use on the host and who holds it, when that can be seen."""

    port: int
    address: str | None = None
    pid: int | None = None
    holder: str | None = None


class HostFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that probes read of one host."""

    schema: str = "kitctl.facts/1"
    os: str | None = None
    kernel: str | None = None
    kernel_command_line: str | None = None
    ram_total_bytes: int | None = None
    ram_available_bytes: int | None = None
    cpus: int | None = None
    shm_bytes: int | None = None
    gpus: tuple[Gpu, ...] | None = None
    driver: Driver | None = None
    topology: Topology | None = None
    engine: ContainerEngine | None = None
    ulimits: Ulimits | None = None
    disks: tuple[Disk, ...] | None = None
    listeners: tuple[Listener, ...] | None = None
    fabric_manager_active: bool | None = None
    acs_redirect_bridges: tuple[str, ...] | None = None
    clock_utc: str | None = None
    unknown: dict[str, str] = {}
