"""Answers of probes become facts; each that failed leaves its fact unknown with the reason."""

import json
from pathlib import Path

import msgspec

from kitctl.host.assemble import assemble_facts, first_pass
from kitctl.host.facts import Driver, Gpu, GpuProcess, HostFacts, Ulimits
from kitctl.host.probes import Answer, Answers

CASES = Path(__file__).parent.parent / "cases"
UUID = "GPU-00000000-0000-0000-0000-00000000000"


def answers_of(name: str) -> dict[str, Answer]:
    tree = json.loads((CASES / "answers" / f"{name}.json").read_text())
    return {key: msgspec.convert(value, Answer) for key, value in tree["answers"].items()}


def said(stdout: str = "", *, code: int | None = 0, stderr: str = "", failure: str | None = None) -> Answer:
    return Answer(argv=("x",), exit_code=code, stdout=stdout, stderr=stderr, failure=failure)


def facts_of(answers: Answers) -> HostFacts:
    return assemble_facts(answers, disks=())


BUSY = answers_of("h200-2x-busy")


def test_real_answers_of_two_h200() -> None:
    cgroup = said(f"/proc/1279/cgroup:0::/system.slice/docker-{'ab' * 32}.scope\n")
    sysfs = said(
        "/sys/bus/pci/devices/0000:00:07.0/numa_node:1\n"
        "/sys/bus/pci/devices/0000:00:07.0/local_cpulist:64-127\n"
    )
    facts = facts_of(BUSY | {"cgroups": cgroup, "gpu-sysfs": sysfs})
    assert facts.gpus is not None
    assert facts.gpus[1] == Gpu(
        index=1,
        name="NVIDIA H200",
        uuid=f"{UUID}1",
        compute_capability="9.0",
        memory_total_mib=143771,
        memory_used_mib=23055,
        pci_bus_id="00000000:00:07.0",
        pcie_width=16,
        pcie_width_max=16,
        pcie_generation=5,
        pcie_generation_max=5,
        power_limit_w=700.0,
        power_limit_max_w=700.0,
        throttle_reasons=(),
        mig_enabled=False,
        ecc_uncorrected=0,
        numa_node=1,
        local_cpus="64-127",
        processes=(GpuProcess(pid=1279, name="python", used_mib=23046, container="abababababab"),),
        bar1_total_mib=262144,
        fabric_state="Completed",
        recovery_action="None",
        nvlink_links=18,
        nvlink_links_active=18,
    )
    assert facts.driver == Driver(version="580.159.04", cuda="13.0")
    assert facts.topology is not None
    assert facts.topology.links == (("X", "NV18"), ("NV18", "X"))
    assert facts.topology.p2p_read_ok == ((True, True), (True, True))


def test_the_second_round_asks_about_the_gpus_and_processes_of_the_first() -> None:
    assert first_pass(BUSY) == (("0000:00:06.0", "0000:00:07.0"), (1279,))


def test_without_xml_the_processes_come_from_the_query_and_the_rest_is_unknown() -> None:
    broken = said(code=2, stderr="ERROR: Option -q is not recognized")
    facts = facts_of(BUSY | {"smi-xml": broken})
    assert facts.gpus is not None
    assert facts.gpus[1].processes == (GpuProcess(pid=1279, name="python", used_mib=23046),)
    assert facts.gpus[1].throttle_reasons is None
    assert facts.unknown["gpus.throttle_reasons"] == "x: ERROR: Option -q is not recognized"
    assert facts.driver == Driver(version="580.159.04", cuda="13.0")


def test_without_the_query_the_gpus_come_from_the_xml_or_the_list() -> None:
    failed = said(code=2, stderr="no such query")
    by_xml = facts_of(BUSY | {"smi-query": failed})
    assert by_xml.gpus is not None
    assert (by_xml.gpus[1].memory_used_mib, by_xml.gpus[1].compute_capability) == (23055, None)
    assert by_xml.unknown["gpus.compute_capability"] == "x: no such query"
    listed = said((CASES / "tool-outputs" / "rtxpro6000-8x-mig-on-gpu4.L.txt").read_text())
    by_list = facts_of({"smi-query": failed, "smi-list": listed})
    assert by_list.gpus is not None
    assert [gpu.index for gpu in by_list.gpus if gpu.mig_enabled] == [4]


def test_nothing_asked_leaves_everything_unknown() -> None:
    facts = facts_of({})
    assert (facts.gpus, facts.engine, facts.topology, facts.ram_total_bytes) == (None, None, None, None)
    assert facts.unknown["gpus"] == facts.unknown["engine"] == facts.unknown["kernel"] == "not asked"


def test_a_table_that_names_other_gpus_than_the_links_is_unknown() -> None:
    facts = facts_of(BUSY | {"p2p-read": said(" \tGPU0\t\n GPU0\tX\t\n")})
    assert facts.topology is not None
    assert facts.topology.p2p_read_ok is None
    assert facts.topology.p2p_write_ok is not None


INFO = said(json.dumps({"ServerVersion": "28.5.2", "Runtimes": {"runc": {}}, "DiscoveredDevices": []}))
RLIMIT = said(code=126, stderr="error setting rlimit type 8: operation not permitted")
NO_PROGRAM = said(code=127, stderr='exec: "true": executable file not found in $PATH')
NO_DRIVER = said(code=125, stderr='could not select device driver "" with capabilities: [[gpu]]')


def test_trials_settle_how_gpus_and_limits_are_granted() -> None:
    trials = {"trial-memlock": RLIMIT, "trial-nofile": RLIMIT, "trial-stack": NO_PROGRAM}
    facts = facts_of({"docker-info": INFO, "trial-hook": NO_PROGRAM, **trials})
    assert facts.engine is not None
    assert facts.engine.gpu_driver == "nvidia"
    assert facts.ulimits == Ulimits(
        memlock_unlimited=False, stack_max_bytes=67108864, refused=("memlock", "nofile")
    )


def test_an_engine_without_hook_has_cdi_or_nothing() -> None:
    refused = facts_of({"docker-info": INFO, "trial-hook": NO_DRIVER})
    assert refused.engine is not None
    assert refused.engine.gpu_driver == "none"
    devices = [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}]
    info = said(json.dumps({"ServerVersion": "28.5.2", "Runtimes": {}, "DiscoveredDevices": devices}))
    by_cdi = facts_of({"docker-info": info, "trial-hook": NO_DRIVER})
    assert by_cdi.engine is not None
    assert by_cdi.engine.gpu_driver == "cdi"
    untried = facts_of({"docker-info": INFO})
    assert untried.engine is not None
    assert untried.engine.gpu_driver is None
    assert untried.ulimits is None


def test_a_dead_daemon_is_no_engine() -> None:
    outputs = CASES / "tool-outputs"
    down = said(
        (outputs / "docker-daemon-down.info.json").read_text(),
        code=1,
        stderr=(outputs / "docker-daemon-down.info.stderr.txt").read_text(),
    )
    facts = facts_of({"docker-info": down})
    assert facts.engine is None
    assert facts.unknown["engine"].startswith("Cannot connect to the Docker daemon")


def test_a_driver_that_fails_hangs_or_is_absent_is_told_apart() -> None:
    mismatch = said("Failed to initialize NVML: Driver/library version mismatch\n", code=18)
    assert facts_of({"smi-query": mismatch}).driver == Driver(
        failure="Failed to initialize NVML: Driver/library version mismatch"
    )
    late = said(code=None, failure="no answer within 10 s")
    assert facts_of({"smi-query": late}).driver == Driver(failure="no answer within 10 s")
    assert facts_of({"smi-query": said(code=None, failure="nvidia-smi is not there")}).driver is None
    none = facts_of({"smi-query": said("No devices were found\n", code=6)})
    assert (none.gpus, none.driver) == ((), None)


def test_the_hosts_clock_is_compared_with_the_asking_one() -> None:
    facts = assemble_facts({"clock": said("1795966000\n")}, disks=(), asked_at_s=1795965990.0)
    assert (facts.clock_utc, facts.clock_skew_s) == ("2026-11-29T15:26:40Z", 10.0)
