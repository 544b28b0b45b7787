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
    local_cpus: str | None = None
    """The CPUs of the GPU's NUMA node by sysfs, whole (``0-63,128-191``)."""
    power_limit_max_w: float | None = None
    bar1_total_mib: int | None = None
    fabric_state: str | None = None
    """The NVSwitch fabric's state: ``Completed``, ``In Progress``, ``Not Started``, ``N/A``."""
    recovery_action: str | None = None
    nvlink_links: int | None = None
    nvlink_links_active: int | None = None


class Driver(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The NVIDIA driver: its version and the newest CUDA that it offers (``13.0``)."""

    version: str | None = None
    cuda: str | None = None
    module_version: str | None = None
    """The loaded kernel module's version (/proc/driver/nvidia/version)."""
    failure: str | None = None
    """What nvidia-smi said when it could not talk to the driver."""
    packages: tuple[str, ...] | None = None
    """Installed driver packages as dpkg tells them (``hold libnvidia-compute-580 580.126.09-0ubuntu1``)."""


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
    toolkit_version: str | None = None
    default_runtime: str | None = None


class Ulimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether the engine may grant what an overlay asks for (an LXC host may not)."""

    memlock_unlimited: bool | None = None
    nofile_max: int | None = None
    stack_max_bytes: int | None = None
    refused: tuple[str, ...] = ()
    """Limits that the engine was asked for in a trial and could not set: ``memlock``, ``nofile``, ``stack``."""


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


class Container(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A running container and what of the host it holds."""

    id: str
    name: str
    image: str | None = None
    project: str | None = None
    stack: str | None = None
    ports: tuple[int, ...] = ()


class NumaNode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One NUMA node's CPUs by sysfs (``0-63,128-191``)."""

    node: int
    cpus: str


class HostFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that probes read of one host."""

    schema: str = "kitctl.facts/1"
    os: str | None = None
    kernel: str | None = None
    kernel_command_line: str | None = None
    ram_total_bytes: int | None = None
    ram_available_bytes: int | None = None
    cpus: int | None = None
    cpu_vendor: str | None = None
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
    clock_skew_s: float | None = None
    """The host's clock minus the clock of the machine that asked, in seconds."""
    numa_nodes: tuple[NumaNode, ...] | None = None
    containers: tuple[Container, ...] | None = None
    kernel_gpu_errors: tuple[str, ...] | None = None
    """Kernel log lines on the GPUs: NVRM Xid and PCIe AER."""
    probed_on: str | None = None
    """Where the probes ran: ``here``, or the image of the container that ran them."""
    unknown: dict[str, str] = {}
