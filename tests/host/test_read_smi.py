"""nvidia-smi's CSV, XML and lists are read into facts; what it does not know stays unknown."""

from pathlib import Path

import pytest

from kitctl.host.facts import GpuProcess, Unknown
from kitctl.host.probes import GPU_FIELDS
from kitctl.host.read_smi import (
    GpuRows,
    SmiXml,
    read_compute_apps,
    read_gpu_list,
    read_gpu_query,
    read_module_version,
    read_nvlink_state,
    read_smi_version,
    read_smi_xml,
    unknown_field,
)

CASES = Path(__file__).parent.parent / "cases"


def text_of(name: str) -> str:
    return (CASES / name).read_text()


def rows_of(text: str, *fields: str) -> GpuRows:
    rows = read_gpu_query(text, fields or GPU_FIELDS)
    assert isinstance(rows, GpuRows), rows
    return rows


@pytest.mark.parametrize("name", ["h200-2x.query.csv", "h200-2x.query.noheader-nounits.csv"])
def test_query_is_read_with_and_without_header_and_units(name: str) -> None:
    fields = text_of("tool-outputs/h200-2x.query.csv").splitlines()[0]
    names = [cell.partition(" [")[0] for cell in fields.split(", ")]
    rows = rows_of(text_of(f"tool-outputs/{name}"), *names)
    second = rows.gpus[1]
    assert rows.driver_version == "580.159.04"
    assert (second.index, second.name, second.compute_capability) == (1, "NVIDIA H200", "9.0")
    assert (second.memory_total_mib, second.memory_used_mib) == (143771, 0)
    assert (second.pcie_width, second.pcie_width_max, second.pcie_generation) == (16, 16, 5)
    assert (second.power_limit_w, second.mig_enabled) == (700.0, False)


def test_unified_memory_is_unknown_and_never_zero() -> None:
    rows = rows_of(
        text_of("tool-outputs/gb10.query-name-mem-driver.csv"), "name", "memory.total", "driver_version"
    )
    assert rows.gpus[0].memory_total_mib is None
    assert rows.driver_version == "580.126.09"
    headed = rows_of(text_of("tool-outputs/gb10.query-header.csv"))
    assert (headed.gpus[0].name, headed.gpus[0].memory_used_mib) == ("NVIDIA GB10", None)


def test_compute_capability_of_a_short_query() -> None:
    rows = rows_of(
        text_of("tool-outputs/rtxpro6000-1x.query-name-driver-cc.csv"),
        "name",
        "driver_version",
        "compute_cap",
    )
    assert rows.gpus[0].compute_capability == "12.0"


def test_a_field_that_the_driver_does_not_know_is_named() -> None:
    assert unknown_field(text_of("tool-outputs/h200-2x.query-bad-field.txt")) == "bogus"
    assert unknown_field("0, NVIDIA H200") is None


def test_a_host_without_gpus_has_none_and_a_strange_answer_is_unknown() -> None:
    assert read_gpu_query("No devices were found\n", GPU_FIELDS) == GpuRows(gpus=(), driver_version=None)
    assert read_gpu_query("nonsense\n", GPU_FIELDS) == Unknown(
        reason="nvidia-smi --query-gpu answered: nonsense"
    )
    assert isinstance(read_gpu_query("", GPU_FIELDS), Unknown)


def test_xml_gives_cuda_throttling_ecc_bar1_and_fabric() -> None:
    xml = read_smi_xml(text_of("smi/h200-2x.q.xml"))
    assert isinstance(xml, SmiXml)
    assert (xml.driver_version, xml.cuda) == ("580.159.04", "13.0")
    detail = xml.details[0]
    assert detail.throttle_reasons == ("gpu_idle",)
    assert (detail.ecc_uncorrected, detail.bar1_total_mib) == (0, 262144)
    assert (detail.fabric_state, detail.recovery_action, detail.processes) == ("Completed", "None", ())


def test_xml_of_old_drivers_says_throttle_reasons() -> None:
    old = text_of("smi/h200-2x.q.xml").replace("clocks_event_reason", "clocks_throttle_reason")
    old = old.replace(
        "hw_slowdown>Not Active</clocks_throttle_reason_hw", "hw_slowdown>Active</clocks_throttle_reason_hw"
    )
    xml = read_smi_xml(old)
    assert isinstance(xml, SmiXml)
    assert xml.details[0].throttle_reasons == ("gpu_idle", "hw_slowdown")


def test_xml_names_processes() -> None:
    process = (
        "<process_info><pid>710</pid><type>C</type><process_name>sglang::scheduler</process_name>"
        "<used_memory>130450 MiB</used_memory></process_info>"
    )
    text = text_of("smi/h200-2x.q.xml").replace("<processes>", f"<processes>{process}", 1)
    xml = read_smi_xml(text)
    assert isinstance(xml, SmiXml)
    assert xml.details[0].processes == (GpuProcess(pid=710, name="sglang::scheduler", used_mib=130450),)


@pytest.mark.parametrize("cut", [100, 5000, 20000])
def test_cut_xml_is_unknown(cut: int) -> None:
    assert read_smi_xml(text_of("smi/h200-2x.q.xml")[:cut]) == Unknown(
        reason="nvidia-smi -q -x gave no whole XML"
    )


def test_compute_apps_by_gpu() -> None:
    apps = read_compute_apps(text_of("smi/h200-2x.apps-serving.csv"))
    assert isinstance(apps, dict)
    (processes,) = apps.values()
    assert processes[2] == GpuProcess(pid=1802, name="sglang::scheduler_TP0_EP0", used_mib=27280)
    assert read_compute_apps("") == {}
    assert isinstance(read_compute_apps("GPU-1, x, y, z\n"), Unknown)


def test_versions() -> None:
    assert read_smi_version(text_of("tool-outputs/h200-2x.version.txt")) == "13.0"
    assert read_smi_version("nothing") is None
    line = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.09  Release Build"
    assert read_module_version(line) == "580.126.09"
    assert read_module_version("") is None


def test_nvlink_state_counts_links_and_those_up() -> None:
    text = text_of("tool-outputs/h200-2x.nvlink-s.txt")
    assert read_nvlink_state(text) == {0: (18, 18), 1: (18, 18)}
    assert read_nvlink_state(text.replace("Link 3: 26.562 GB/s", "Link 3: <inactive>", 1))[0] == (18, 17)
    assert read_nvlink_state("") == {}


@pytest.mark.parametrize(
    ("name", "count", "split"),
    [
        ("h200-2x.L.txt", 2, []),
        ("rtxpro6000-8x.L.txt", 8, []),
        ("rtxpro6000-8x-mig-on-gpu4.L.txt", 8, [4]),
        ("rtxpro6000-2x-mig-2g48.L.txt", 2, [0, 1]),
    ],
)
def test_list_tells_which_gpus_are_split(name: str, count: int, split: list[int]) -> None:
    gpus = read_gpu_list(text_of(f"tool-outputs/{name}"))
    assert [gpu.index for gpu in gpus] == list(range(count))
    assert [gpu.index for gpu in gpus if gpu.mig_enabled] == split


def test_xml_alone_names_the_gpus() -> None:
    xml = read_smi_xml(text_of("smi/h200-2x.q.xml"))
    assert isinstance(xml, SmiXml)
    gpu = xml.gpus[1]
    assert (gpu.index, gpu.name, gpu.memory_total_mib, gpu.pcie_width) == (1, "NVIDIA H200", 143771, 16)
    assert (gpu.power_limit_w, gpu.power_limit_max_w, gpu.mig_enabled) == (700.0, 700.0, False)
