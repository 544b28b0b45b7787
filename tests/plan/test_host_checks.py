"""Every finding is given on its minimal input, with the severity meant, and by nothing that is fine."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kitctl.edge.host_data import load_host_tables
from kitctl.finding import Severity
from kitctl.host.facts import (
    Container,
    ContainerEngine,
    Disk,
    Driver,
    Gpu,
    GpuProcess,
    HostFacts,
    Listener,
    Topology,
    Ulimits,
)
from kitctl.host.read_p2p import P2pTable, read_p2p
from kitctl.host.read_topology import read_topology
from kitctl.kit.stack import Parallel
from kitctl.plan.driver_checks import arch_serves
from kitctl.plan.host_checks import check_host
from kitctl.plan.host_need import HostNeed, graph_file_gpus, group_sizes

CASES = Path(__file__).parent.parent / "cases"
TABLES = load_host_tables()
COLLECTIVE = {
    "p2p-unproven",
    "collective-wrong-answer",
    "collective-hangs",
    "collective-fails",
    "collective-proven",
    "collective-proven-on-cpu",
    "p2p-slower-than-host-memory",
}


def topology_of(case: str) -> Topology:
    topology = read_topology((CASES / "hosts" / f"{case}.topo.txt").read_text())
    assert isinstance(topology, Topology)
    return topology


def with_p2p(topology: Topology, status: str) -> Topology:
    rows = tuple(tuple("X" if a == b else status for b in topology.gpu_indices) for a in topology.gpu_indices)
    table = P2pTable(gpu_indices=topology.gpu_indices, status=rows)
    return msgspec.structs.replace(
        topology, p2p_read_ok=table.ok(), p2p_write_ok=table.ok(), p2p_status=table.status
    )


def gpu(index: int, **other: Any) -> Gpu:
    fine: dict[str, Any] = {
        "name": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "uuid": f"GPU-{index}",
        "compute_capability": "12.0",
        "memory_total_mib": 97887,
        "memory_used_mib": 0,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "pcie_generation": 1,
        "pcie_generation_max": 5,
        "power_limit_w": 600.0,
        "power_limit_max_w": 600.0,
        "throttle_reasons": ("gpu_idle",),
        "mig_enabled": False,
        "ecc_uncorrected": 0,
        "bar1_total_mib": 131072,
        "recovery_action": "None",
        "processes": (),
    }
    return Gpu(index=index, **(fine | other))


FINE = HostFacts(
    kernel_command_line="quiet iommu=pt",
    ram_total_bytes=512 * 10**9,
    ram_available_bytes=400 * 10**9,
    cpus=64,
    cpu_vendor="GenuineIntel",
    shm_bytes=256 * 10**9,
    gpus=tuple(gpu(index) for index in range(8)),
    driver=Driver(version="580.126.09", cuda="13.0", module_version="580.126.09"),
    topology=with_p2p(topology_of("04-rtxpro6000-8x-2socket-direct"), "OK"),
    engine=ContainerEngine(
        version="28.5.2", compose_version="5.6.1", buildx_version="0.29.1", gpu_driver="nvidia", cpus=64
    ),
    ulimits=Ulimits(memlock_unlimited=True, nofile_max=1048576, stack_max_bytes=67108864),
    disks=(Disk(path="/store", free_bytes=900 * 10**9, total_bytes=2000 * 10**9),),
    listeners=(),
    containers=(),
    acs_redirect_bridges=(),
    kernel_gpu_errors=(),
    clock_skew_s=0.2,
)
NEED = HostNeed(
    gpu_indices=tuple(range(8)),
    archs=("12.0",),
    image_cuda="13.0",
    image_nvcc="13.0",
    image_archs=("12.0", "10.0", "9.0"),
    gpu_driver="nvidia",
    reservation_ids=tuple("01234567"),
    overlay="pcie",
    overlay_links=("pcie", "nvlink-partial", "single"),
    port=30001,
    bind="127.0.0.1",
    environment={"NCCL_P2P_LEVEL": "SYS", "NCCL_IB_DISABLE": "1", "NCCL_MIN_NCHANNELS": "8"},
    ulimits={"stack": 67108864},
    shm_size_bytes=32 * 1024**3,
    group_sizes=(8, 4, 2),
    disk_bytes={"/store": 600 * 10**9},
    own_project=None,
)


def facts_with(**other: Any) -> HostFacts:
    return msgspec.structs.replace(FINE, **other)


def gpus_with(index: int, **other: Any) -> tuple[Gpu, ...]:
    return tuple(gpu(n, **(other if n == index else {})) for n in range(8))


def engine_with(**other: Any) -> ContainerEngine:
    assert FINE.engine is not None
    return msgspec.structs.replace(FINE.engine, **other)


def environment(**other: str) -> HostNeed:
    return replace(NEED, environment={**NEED.environment, **other})


@dataclass(frozen=True, kw_only=True)
class Case:
    """One minimal input: what differs from the host and stack that are fine, and what must be said."""

    code: str
    facts: HostFacts = FINE
    need: HostNeed | None = NEED
    severity: Severity = Severity.BLOCK
    cause: str
    also: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)


NVLINK = facts_with(topology=topology_of("22-nv18-8x-no-nic"))
NVLINK_NEED = replace(NEED, overlay="nvlink", overlay_links=("nvlink-full",), environment={})
MIXED_HOST = facts_with(
    topology=topology_of("25-rtx4090-5x-mixed"), gpus=tuple(gpu(index) for index in range(5))
)
FOUR = replace(NEED, gpu_indices=(0, 1, 2, 3), reservation_ids=tuple("0123"), group_sizes=(4,))
HELD = (GpuProcess(pid=4711, name="python3", used_mib=21990, container="old-engine-1"),)
CASES_OF_FINDINGS = [
    Case(
        code="driver-library-mismatch-reboot",
        facts=facts_with(
            gpus=None,
            driver=Driver(failure="Failed to initialize NVML: Driver/library version mismatch"),
        ),
        cause="the NVIDIA libraries and the loaded kernel module are of different versions",
    ),
    Case(
        code="driver-library-mismatch-reboot",
        facts=facts_with(driver=Driver(version="580.159.04", cuda="13.0", module_version="580.126.09")),
        cause="the NVIDIA libraries and the loaded kernel module are of different versions",
    ),
    Case(
        code="nvidia-smi-hangs",
        facts=facts_with(gpus=None, driver=Driver(failure="no answer within 10 s")),
        cause="nvidia-smi gives no answer, so the driver or a GPU hangs",
    ),
    Case(
        code="nvidia-driver-unreachable",
        facts=facts_with(
            gpus=None,
            driver=Driver(
                failure="NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
            ),
        ),
        cause="nvidia-smi cannot talk to the driver",
    ),
    Case(
        code="no-gpu-on-host",
        facts=facts_with(gpus=(), driver=None, topology=None),
        need=None,
        severity=Severity.WARN,
        cause="no GPU was seen on the host, so only CPU stacks and rehearsals can run",
    ),
    Case(
        code="driver-too-old-for-image",
        facts=facts_with(driver=Driver(version="570.133.20", module_version="570.133.20")),
        cause="the image needs CUDA 13.0 and the driver offers 12.8",
    ),
    Case(
        code="driver-too-old-for-ptx",
        need=replace(NEED, image_nvcc="13.1"),
        cause="kernels that the image compiles with CUDA 13.1 will not load on a driver for CUDA 13.0; "
        "it would fail after the weights are loaded",
    ),
    Case(
        code="driver-cuda-unknown",
        facts=facts_with(driver=Driver(version="999.1", module_version="999.1")),
        severity=Severity.WARN,
        cause="whether the driver offers CUDA 13.0, which the image needs, could not be read",
    ),
    Case(
        code="image-lacks-gpu-arch",
        facts=facts_with(gpus=gpus_with(3, compute_capability="12.0")[:8]),
        need=replace(NEED, image_archs=("9.0", "10.0"), gpu_indices=(3,), reservation_ids=("3",)),
        cause="the image holds no code for compute capability 12.0 "
        "(NVIDIA RTX PRO 6000 Blackwell Server Edition)",
    ),
    Case(
        code="stack-made-for-other-gpus",
        need=replace(NEED, archs=("9.0",), gpu_indices=(3,), reservation_ids=("3",)),
        severity=Severity.WARN,
        cause="the stack was made for compute capability 9.0 and GPU3 has 12.0",
    ),
    Case(
        code="docker-daemon-down",
        facts=facts_with(engine=None, unknown={"engine": "Cannot connect to the Docker daemon"}),
        cause="the container engine does not answer",
    ),
    Case(
        code="nvidia-toolkit-not-configured",
        facts=facts_with(engine=engine_with(gpu_driver="none", runtimes=("runc",))),
        cause="the engine knows no way to give a container GPUs",
    ),
    Case(
        code="gpu-path-unsettled",
        facts=facts_with(engine=engine_with(gpu_driver=None)),
        severity=Severity.NOTE,
        cause="whether the engine can give a container GPUs is not settled, since hook mode shows in no list",
    ),
    Case(
        code="cdi-device-missing",
        facts=facts_with(
            engine=engine_with(
                gpu_driver="cdi",
                cdi_devices=(*(f"nvidia.com/gpu={n}" for n in range(8)), "nvidia.com/gpu=all"),
            )
        ),
        need=replace(NEED, gpu_driver="cdi", reservation_ids=("nvidia.com/gpu=GPU-x",)),
        cause="the engine's CDI spec has no device nvidia.com/gpu=GPU-x",
    ),
    Case(
        code="cdi-spec-stale",
        facts=facts_with(engine=engine_with(cdi_devices=("nvidia.com/gpu=0", "nvidia.com/gpu=all"))),
        severity=Severity.WARN,
        cause="the CDI spec lists 1 GPUs and the host has 8",
    ),
    Case(
        code="compose-missing",
        facts=facts_with(engine=engine_with(compose_version=None)),
        cause="the docker compose plugin is not there",
    ),
    Case(
        code="compose-too-old",
        facts=facts_with(engine=engine_with(compose_version="2.17.2")),
        severity=Severity.WARN,
        cause="compose 2.17.2 is older than 2.20",
    ),
    Case(
        code="buildx-too-old",
        facts=facts_with(engine=engine_with(buildx_version="0.13.1")),
        severity=Severity.WARN,
        cause="images cannot be built: buildx is 0.13.1, and 0.17 or newer is needed",
    ),
    Case(
        code="rootless-engine",
        facts=facts_with(engine=engine_with(rootless=True)),
        severity=Severity.NOTE,
        cause="the engine is rootless, so limits are not raised, and GPUs need CDI or no-cgroups in the "
        "toolkit's config",
    ),
    Case(
        code="gpus-lost-on-reload",
        facts=facts_with(engine=engine_with(cgroup_driver="systemd")),
        severity=Severity.NOTE,
        cause="the engine leaves device rules to systemd and hands GPUs out by the runtime hook: a "
        '"systemctl daemon-reload" takes them from running containers',
    ),
    Case(
        code="gpu-occupied-by-other-process",
        facts=facts_with(gpus=gpus_with(3, memory_used_mib=22000, processes=HELD)),
        cause="GPU3 holds 22000 MiB of other work (22% of its memory): old-engine-1 (pid 4711)",
    ),
    Case(
        code="gpu-occupied-by-other-process",
        facts=facts_with(gpus=gpus_with(3, memory_used_mib=22000)),
        need=None,
        severity=Severity.WARN,
        cause="GPU3 holds 22000 MiB of other work (22% of its memory): no process is named, so it may be "
        "an orphan or another's namespace",
    ),
    Case(
        code="gpu-memory-in-use",
        facts=facts_with(gpus=gpus_with(3, memory_used_mib=1300)),
        severity=Severity.WARN,
        cause="GPU3 already holds 1300 MiB: no process is named, so it may be an orphan or another's namespace",
    ),
    Case(
        code="gpu-memory-unknown",
        facts=facts_with(
            gpus=(gpu(0, name="NVIDIA GB10", memory_total_mib=None, memory_used_mib=None),), topology=None
        ),
        need=None,
        severity=Severity.NOTE,
        cause="GPU0 (NVIDIA GB10) names no memory of its own; the memory fit takes the host's RAM (512.0 GB)",
    ),
    Case(
        code="mixed-gpus",
        facts=facts_with(gpus=gpus_with(0, name="NVIDIA RTX A400")),
        need=FOUR,
        cause="the reserved GPUs are of different kinds: NVIDIA RTX A400, "
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    ),
    Case(
        code="reserved-gpus-cross-sockets",
        facts=MIXED_HOST,
        need=FOUR,
        severity=Severity.WARN,
        cause="the reserved GPUs 0,1,2,3 are on several NUMA nodes, while 1,2,3,4 share one",
    ),
    Case(
        code="mig-enabled",
        facts=facts_with(gpus=gpus_with(4, mig_enabled=True)),
        cause="GPU4 is split by MIG, and ranks of one engine cannot use slices together",
    ),
    Case(
        code="pcie-width-reduced",
        facts=facts_with(gpus=gpus_with(5, pcie_width=8)),
        severity=Severity.WARN,
        cause="GPU5 runs on 8 of 16 PCIe lanes",
    ),
    Case(
        code="gpu-throttled",
        facts=facts_with(gpus=gpus_with(5, throttle_reasons=("hw_thermal_slowdown", "gpu_idle"))),
        severity=Severity.WARN,
        cause="GPU5 lowers its clocks: hw_thermal_slowdown",
    ),
    Case(
        code="gpu-power-capped",
        facts=facts_with(gpus=gpus_with(5, power_limit_w=300.0)),
        severity=Severity.NOTE,
        cause="GPU5 is limited to 300 W of 600 W",
    ),
    Case(
        code="gpu-ecc-errors",
        facts=facts_with(gpus=gpus_with(5, ecc_uncorrected=2)),
        severity=Severity.WARN,
        cause="GPU5 has had 2 uncorrected memory errors since the driver was loaded",
    ),
    Case(
        code="gpu-needs-reset",
        facts=facts_with(gpus=gpus_with(5, recovery_action="Reset")),
        cause="the driver asks for GPU5 to be recovered: Reset",
    ),
    Case(
        code="small-bar1",
        facts=facts_with(gpus=gpus_with(5, bar1_total_mib=256)),
        severity=Severity.WARN,
        cause="GPU5 shows 256 MiB of its 97887 MiB over BAR1, so P2P over PCIe is slow or refused",
    ),
    Case(
        code="nvlink-links-down",
        facts=msgspec.structs.replace(NVLINK, gpus=gpus_with(5, nvlink_links=18, nvlink_links_active=16)),
        need=NVLINK_NEED,
        severity=Severity.WARN,
        cause="2 of 18 NVLinks of GPU5 are down",
    ),
    Case(
        code="fabric-manager-down",
        facts=msgspec.structs.replace(NVLINK, gpus=gpus_with(5, fabric_state="In Progress")),
        need=NVLINK_NEED,
        cause="the NVSwitch fabric of GPU5 is In Progress, and CUDA fails to start until it is up",
    ),
    Case(
        code="fabric-manager-down",
        facts=facts_with(topology=topology_of("16-a100sxm-8x-nvswitch"), fabric_manager_active=False),
        need=NVLINK_NEED,
        severity=Severity.WARN,
        cause="the NVSwitch fabric of GPU0 is not known to be up, and CUDA fails to start until it is up",
    ),
    Case(
        code="kernel-reports-gpu-errors",
        facts=facts_with(kernel_gpu_errors=("pcieport: aer_uncor_status: 0x00000020",)),
        severity=Severity.WARN,
        cause="the kernel log tells of failing GPUs or PCIe links",
    ),
    Case(
        code="iommu-translates",
        facts=facts_with(kernel_command_line="quiet amd_iommu=on"),
        severity=Severity.WARN,
        cause="the kernel is told to translate DMA, which breaks or slows P2P between PCIe GPUs "
        "though its table says OK",
    ),
    Case(
        code="acs-redirect",
        facts=facts_with(acs_redirect_bridges=("0000:00:01.1", "0000:40:01.1")),
        severity=Severity.WARN,
        cause="2 PCIe bridges above the GPUs redirect peer traffic (ACS), which slows P2P or hangs the "
        "first all-reduce",
    ),
    Case(
        code="p2p-refused-by-driver",
        facts=facts_with(topology=with_p2p(topology_of("04-rtxpro6000-8x-2socket-direct"), "GNS")),
        severity=Severity.NOTE,
        cause="the driver refuses P2P between reserved GPUs (GNS), so NCCL goes through host memory "
        "whatever its level",
    ),
    Case(
        code="nvlink-p2p-refused",
        facts=facts_with(topology=with_p2p(topology_of("22-nv18-8x-no-nic"), "NS")),
        need=NVLINK_NEED,
        cause="the driver refuses P2P over NVLink between reserved GPUs (NS), which NCCL takes for an error",
    ),
    Case(
        code="overlay-against-links",
        need=replace(NEED, overlay="nvlink", overlay_links=("nvlink-full",)),
        severity=Severity.WARN,
        cause="the overlay nvlink was asked for, and the reserved GPUs are pcie",
    ),
    Case(
        code="p2p-level-5-means-SYS",
        need=environment(NCCL_P2P_LEVEL="5"),
        cause="NCCL_P2P_LEVEL=5 is a legacy number; NCCL reads it as SYS, and no number means NVLink",
    ),
    Case(
        code="p2p-level-5-means-SYS",
        need=environment(NCCL_P2P_LEVEL="3"),
        cause="NCCL_P2P_LEVEL=3 is a legacy number; NCCL reads it as PHB, and no number means NVLink",
    ),
    Case(
        code="nccl-level-ignored",
        need=environment(NCCL_P2P_LEVEL="NODE"),
        cause="NCCL_P2P_LEVEL=NODE is no level of NCCL, which ignores it without a word",
    ),
    Case(
        code="nccl-level-ignored",
        need=environment(NCCL_P2P_LEVEL="nvl"),
        cause="NCCL_P2P_LEVEL=nvl is no level of NCCL, which ignores it without a word",
    ),
    Case(
        code="nccl-level-ignored",
        need=environment(NCCL_P2P_LEVEL="-1"),
        cause="NCCL_P2P_LEVEL=-1 is no level of NCCL, which ignores it without a word",
    ),
    Case(
        code="nccl-level-off-on-pcie",
        need=environment(NCCL_P2P_LEVEL="NVL"),
        severity=Severity.WARN,
        cause="NCCL_P2P_LEVEL=NVL turns P2P off between GPUs without NVLink: all traffic goes through "
        "host memory",
    ),
    Case(
        code="nccl-value-ignored",
        need=environment(NCCL_P2P_DISABLE="true"),
        cause="NCCL_P2P_DISABLE=true is no value of that variable (0 1), and NCCL ignores it without a word",
    ),
    Case(
        code="nccl-variable-unknown",
        need=environment(NCCL_P2P_LEVLE="SYS"),
        severity=Severity.WARN,
        cause="NCCL does not know NCCL_P2P_LEVLE; did you mean NCCL_P2P_LEVEL?",
    ),
    Case(
        code="nccl-shm-disabled",
        need=environment(NCCL_SHM_DISABLE="1"),
        cause="NCCL_SHM_DISABLE=1 takes away the fallback for pairs without P2P",
    ),
    Case(
        code="nccl-p2p-disabled",
        facts=NVLINK,
        need=replace(NVLINK_NEED, environment={"NCCL_P2P_DISABLE": "1"}),
        severity=Severity.WARN,
        cause="NCCL_P2P_DISABLE=1 sends all traffic through host memory",
    ),
    Case(
        code="nccl-graph-file-size",
        need=replace(environment(NCCL_GRAPH_FILE="/graph.xml"), graph_file_gpus=8),
        cause="NCCL_GRAPH_FILE was made for 8 GPUs and the stack has groups of 2 and 4",
    ),
    Case(
        code="amd-sockets-untuned",
        facts=facts_with(cpu_vendor="AuthenticAMD"),
        need=replace(NEED, environment={"NCCL_P2P_LEVEL": "SYS"}),
        severity=Severity.NOTE,
        cause="NCCL rates links between AMD sockets at 16 GB/s and may search a poor ring for GPUs on both",
    ),
    Case(
        code="nccl-stack-unlimited",
        need=replace(NEED, ulimits={"stack": -1}),
        cause="ulimits.stack is unlimited, which shrinks NCCL's threads to 2 MiB stacks and crashes its "
        "graph search before 2.28",
    ),
    Case(
        code="reservation-overridden",
        need=environment(NVIDIA_VISIBLE_DEVICES="all"),
        cause="NVIDIA_VISIBLE_DEVICES stands in the environment beside a reservation, which overrides it "
        "or is overridden",
    ),
    Case(
        code="cuda-devices-by-uuid",
        need=environment(CUDA_VISIBLE_DEVICES="GPU-1,GPU-2"),
        cause="CUDA_VISIBLE_DEVICES=GPU-1,GPU-2: SGLang reads integers there and fails on a UUID",
    ),
    Case(
        code="shm-too-small",
        need=replace(NEED, shm_size_bytes=64 * 1024**2),
        cause="/dev/shm would have 67 MB and NCCL with several GPUs needs 17.2 GB",
    ),
    Case(
        code="shm-size-ignored",
        need=replace(NEED, ipc_host=True),
        cause="ipc: host and shm_size stand together; the engine then ignores shm_size without a word",
    ),
    Case(
        code="rlimit-refused",
        facts=facts_with(ulimits=Ulimits(memlock_unlimited=False, refused=("memlock", "nofile"))),
        need=replace(NEED, ulimits={"memlock": {"soft": -1, "hard": -1}, "stack": 67108864}),
        cause="the engine may not raise the limits that the overlay asks for: memlock: -1",
    ),
    Case(
        code="port-taken-by-container",
        facts=facts_with(
            listeners=(Listener(port=30001, address="127.0.0.1", holder="container old-engine-1"),)
        ),
        cause="port 30001 is published by container old-engine-1",
    ),
    Case(
        code="port-taken-by-host-process",
        facts=facts_with(listeners=(Listener(port=30001, address="0.0.0.0", pid=9, holder="python3"),)),
        cause="port 30001 is in use by python3 (pid 9)",
    ),
    Case(
        code="cpuset-not-on-this-host",
        need=replace(NEED, cpuset="64-127"),
        cause="the CPU set 64-127 names CPUs that the host lacks (64 CPUs)",
    ),
    Case(
        code="disk-too-small",
        facts=facts_with(disks=(Disk(path="/store", free_bytes=150 * 10**9, total_bytes=1000 * 10**9),)),
        cause="/store has 150.0 GB free and 605.4 GB are needed",
    ),
    Case(
        code="disk-nearly-full",
        facts=facts_with(disks=(Disk(path="/store", free_bytes=29 * 10**9, total_bytes=1000 * 10**9),)),
        need=replace(NEED, disk_bytes={"/store": 6_500_000_000}),
        severity=Severity.WARN,
        cause="/store has 29.0 GB free of 1.00 TB",
    ),
    Case(
        code="host-ram-too-small",
        need=replace(NEED, ram_bytes=600 * 10**9),
        severity=Severity.WARN,
        cause="loading needs about 600.0 GB of RAM at once and 400.0 GB are available",
    ),
    Case(
        code="clock-off",
        facts=facts_with(clock_skew_s=-3600.0),
        severity=Severity.WARN,
        cause="the host's clock is -3600 s off",
    ),
]


@pytest.mark.parametrize("case", CASES_OF_FINDINGS, ids=lambda case: f"{case.code}: {case.cause[:40]}")
def test_minimal_input_gives_exactly_its_finding(case: Case) -> None:
    findings = check_host(case.facts, need=case.need, tables=TABLES)
    said = [(found.code, found.severity, found.cause) for found in findings]
    assert said == [(case.code, case.severity, case.cause)]
    assert "{" not in findings[0].remedy


@pytest.mark.parametrize(
    ("facts", "need"),
    [
        (FINE, NEED),
        (FINE, None),
        (NVLINK, NVLINK_NEED),
        (msgspec.structs.replace(NVLINK, gpus=gpus_with(9), fabric_manager_active=True), NVLINK_NEED),
        (facts_with(kernel_command_line="intel_iommu=on iommu=pt"), NEED),
        (facts_with(gpus=gpus_with(2, throttle_reasons=("sw_power_cap", "gpu_idle"))), NEED),
        (facts_with(listeners=(Listener(port=30001, address="10.0.0.1"),)), NEED),
        (facts_with(ulimits=Ulimits(refused=("memlock",))), NEED),
        (facts_with(clock_skew_s=None, ulimits=None, disks=None, listeners=None), NEED),
    ],
    ids=[
        "pcie",
        "no-stack",
        "nvlink",
        "nvswitch",
        "iommu-pt",
        "power-cap",
        "other-address",
        "limit-not-asked",
        "unknowns",
    ],
)
def test_what_is_fine_gives_nothing(facts: HostFacts, need: HostNeed | None) -> None:
    assert check_host(facts, need=need, tables=TABLES) == ()


def test_each_code_of_the_book_has_its_minimal_input() -> None:
    assert {case.code for case in CASES_OF_FINDINGS} == set(TABLES.book.records) - COLLECTIVE


def test_what_the_stack_itself_holds_is_no_clash() -> None:
    own = Container(id="ab", name="kitctl-ep4-engine-1", project="kitctl-ep4", ports=(30001,))
    held = (GpuProcess(pid=1, name="sglang", used_mib=90000, container="kitctl-ep4-engine-1"),)
    facts = facts_with(
        containers=(own,),
        listeners=(Listener(port=30001, address="127.0.0.1", holder="container kitctl-ep4-engine-1"),),
        gpus=tuple(gpu(index, memory_used_mib=90010, processes=held) for index in range(8)),
    )
    assert check_host(facts, need=replace(NEED, own_project="kitctl-ep4"), tables=TABLES) == ()
    codes = {found.code for found in check_host(facts, need=NEED, tables=TABLES)}
    assert codes == {"gpu-occupied-by-other-process", "port-taken-by-container"}


def test_evidence_names_process_and_container() -> None:
    facts = facts_with(gpus=gpus_with(3, memory_used_mib=22000, processes=HELD))
    (found,) = check_host(facts, need=NEED, tables=TABLES)
    assert found.evidence == (
        "memory.used 22000 MiB of 97887 MiB",
        "pid 4711 python3 21990 MiB in container old-engine-1",
    )
    assert found.remedy == ("stop that work, or reserve other GPUs with --gpus; docker stop old-engine-1")
    assert found.where == "GPU3"


def test_a_mismatch_lists_the_packages_and_link_errors_the_missing_parameters() -> None:
    driver = Driver(
        version="580.159.04",
        module_version="580.126.09",
        cuda="13.0",
        packages=("hold libnvidia-compute-580 580.159.04-0ubuntu1",),
    )
    lines = ("pcieport 0000:40:01.1: aer_uncor_status: 0x00000020",)
    mismatch, kernel = check_host(
        facts_with(driver=driver, kernel_gpu_errors=lines), need=None, tables=TABLES
    )
    assert mismatch.evidence == (
        "kernel module 580.126.09",
        "library 580.159.04",
        "package hold libnvidia-compute-580 580.159.04-0ubuntu1",
    )
    assert kernel.evidence == (*lines, "the kernel command line lacks pcie_aspm=off pcie_port_pm=off")


def test_p2p_table_of_a_geforce_host_is_a_note() -> None:
    read = read_p2p((CASES / "tool-outputs" / "rtx5090-2x.p2p-rw.txt").read_text())
    assert isinstance(read, P2pTable)
    topology = msgspec.structs.replace(
        topology_of("07-rtx5090-2x-phb"), p2p_read_ok=read.ok(), p2p_status=read.status
    )
    (found,) = check_host(facts_with(topology=topology, gpus=(gpu(0), gpu(1))), need=None, tables=TABLES)
    assert (found.code, found.severity) == ("p2p-refused-by-driver", Severity.NOTE)
    assert found.evidence == ("GPU0-GPU1 (PHB): GNS",)


@pytest.mark.parametrize(
    ("arch", "capability", "serves"),
    [
        ("9.0", "9.0", True),
        ("10.0", "10.3", True),
        ("10.3", "10.0", False),
        ("10.0", "12.0", False),
        ("12.0a", "12.0", True),
        ("12.0a", "12.1", False),
        ("12.0f", "12.1", True),
        ("8.0+PTX", "12.0", True),
        ("9.0a+PTX", "12.0", False),
        ("nonsense", "12.0", False),
    ],
)
def test_which_code_runs_on_which_gpu(arch: str, capability: str, serves: bool) -> None:
    assert arch_serves(arch, capability) is serves


def test_groups_of_a_layout() -> None:
    assert group_sizes(Parallel(tp=8, ep=4)) == (2, 4, 8)
    assert group_sizes(Parallel(pp=8)) == (8,)
    assert group_sizes(Parallel()) == ()


def test_a_graph_file_is_for_the_gpus_of_its_largest_channel() -> None:
    gpus = "".join(f'<gpu dev="{n}"/>' for n in range(8))
    assert graph_file_gpus(f"<graphs><graph><channel>{gpus}</channel></graph></graphs>") == 8
    assert graph_file_gpus("<graphs/>") is None


def test_driver_branches_and_cards() -> None:
    assert TABLES.cuda_of_driver("580.159.04") == "13.0"
    assert TABLES.branch_for_cuda("13.0") == "580"
    assert TABLES.branch_for_cuda("14.0") == "newer than 590"
    card = TABLES.card("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition")
    assert card is not None
    assert (card.arch, card.memory_gib) == ("12.0", 96)
