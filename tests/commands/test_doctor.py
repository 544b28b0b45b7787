"""kitctl doctor tells facts and findings, of this host or of another's file, and blocks only for what would fail."""

import json
import time
from pathlib import Path

import pytest
from gpuhost.gpu_host import GpuHost, write_nvidia_smi
from kitctl_process import KitUser

from kitctl.host.facts_json import decode_facts

CASES = Path(__file__).parent.parent / "cases"
PCIE, NVLINK = (CASES / "facts" / f"{name}.json" for name in ("pcie-8x-rtxpro6000", "nvlink-8x-b200"))


def changed(kit_user: KitUser, facts: Path, **other: object) -> str:
    path = kit_user.home / "facts.json"
    path.write_text(json.dumps(json.loads(facts.read_text()) | other))
    return str(path)


def add_tool(kit_user: KitUser, name: str, text: str) -> dict[str, str]:
    """The user's environment with a tool of that name first in PATH."""
    tools = kit_user.home / "tools"
    tools.mkdir(exist_ok=True)
    (tools / name).write_text(text)
    (tools / name).chmod(0o755)
    return kit_user.env | {"PATH": f"{tools}:{kit_user.env['PATH']}"}


@pytest.mark.parametrize("facts", [PCIE, NVLINK], ids=["pcie", "nvlink"])
def test_a_host_that_is_fine_has_no_findings(kit_user: KitUser, facts: Path) -> None:
    data = kit_user.json("doctor", "--facts", str(facts))
    assert data["findings"] == []
    assert decode_facts(json.dumps(data), source="doctor") == decode_facts(facts.read_text(), source="file")


def test_a_finding_that_blocks_ends_with_3_and_can_be_skipped(kit_user: KitUser) -> None:
    facts = changed(kit_user, PCIE, engine=None, unknown={"engine": "Cannot connect to the Docker daemon"})
    (found,) = kit_user.json("doctor", "--facts", facts, exit_code=3)["findings"]
    assert found == {
        "code": "docker-daemon-down",
        "severity": "block",
        "cause": "the container engine does not answer",
        "evidence": ["Cannot connect to the Docker daemon"],
        "remedy": "start it (systemctl start docker), or name another with --host; 'kitctl setup' installs one",
        "where": "engine",
    }
    (found,) = kit_user.json("doctor", "--facts", facts, "--skip", "docker-daemon-down")["findings"]
    assert found["severity"] == "note"


def test_with_a_stack_the_findings_are_about_it(kit_user: KitUser) -> None:
    facts = changed(kit_user, PCIE, driver={"version": "570.133.20", "cuda": "12.8"})
    codes = {one["code"] for one in kit_user.json("doctor", "ep4", "--facts", facts, exit_code=3)["findings"]}
    assert "driver-too-old-for-image" in codes
    assert "driver-too-old-for-image" not in {
        one["code"] for one in kit_user.json("doctor", "--facts", facts)["findings"]
    }


def test_text_for_a_person(kit_user: KitUser) -> None:
    done = kit_user.run("doctor", "--facts", str(PCIE))
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert (
        "gpus     8x NVIDIA RTX PRO 6000 Blackwell Server Edition (97887 MiB, compute capability 12.0)"
        in lines
    )
    assert "links    pcie: no pair of 28 has NVLink (PHB SYS)" in lines
    assert lines[-1] == "nothing stands in the way"


def test_report_is_redacted(kit_user: KitUser) -> None:
    facts = changed(
        kit_user,
        PCIE,
        kernel_command_line="quiet iommu=pt luks.key=abc root=/dev/disk/by-uuid/1",
        containers=[{"id": "ab" * 32, "name": "secret-project-1", "image": "corp/secret", "ports": [30001]}],
        listeners=[{"port": 30001, "address": "10.1.2.3", "pid": 4, "holder": "container secret-project-1"}],
    )
    report = kit_user.home / "report.json"
    done = kit_user.run("doctor", "--facts", facts, "--report", str(report))
    assert done.returncode == 0
    text = report.read_text()
    for hidden in ("secret", "10.1.2.3", "luks", "ab" * 32, "/store"):
        assert hidden not in text
    body = json.loads(text)
    assert body["schema"] == "kitctl.report/1"
    assert body["facts"]["kernel_command_line"] == "iommu=pt"
    assert body["facts"]["listeners"] == [
        {"port": 30001, "address": "<address>", "pid": None, "holder": None}
    ]


def test_a_hung_nvidia_smi_ends_in_a_finding(kit_user: KitUser) -> None:
    env = add_tool(kit_user, "nvidia-smi", "#!/bin/sh\nexec sleep 600\n")
    started = time.monotonic()
    done = kit_user.run("doctor", "--json", "--timeout-scale", "0.1", env=env)
    assert time.monotonic() - started < 30
    assert done.returncode == 3
    findings = json.loads(done.stdout)["findings"]
    assert "nvidia-smi-hangs" in {one["code"] for one in findings}


def test_a_mismatched_library_is_named(kit_user: KitUser) -> None:
    text = "#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'; exit 18\n"
    done = kit_user.run("doctor", "--json", env=add_tool(kit_user, "nvidia-smi", text))
    assert done.returncode == 3
    (found,) = [one for one in json.loads(done.stdout)["findings"] if one["where"] == "driver"]
    assert found["code"] == "driver-library-mismatch-reboot"
    assert found["evidence"] == ["Failed to initialize NVML: Driver/library version mismatch"]


def test_an_old_nvidia_smi_is_asked_again_without_the_field_that_it_lacks(kit_user: KitUser) -> None:
    text = (
        '#!/bin/sh\ncase "$1" in *power.max_limit*) echo \'Field "power.max_limit" is not a valid field to query.\'; '
        "exit 2;; --query-gpu=index,*) echo '0, GPU-1, NVIDIA A100, 00000000:01:00.0, 470.1, 8.0, 40960, 0, 4, 4, 16, "
        "16, 400.00, Disabled'; exit 0;; esac; exit 1\n"
    )
    done = kit_user.run("doctor", "--json", env=add_tool(kit_user, "nvidia-smi", text))
    (gpu,) = json.loads(done.stdout)["facts"]["gpus"]
    assert (gpu["name"], gpu["power_limit_w"], gpu["power_limit_max_w"]) == ("NVIDIA A100", 400.0, None)


def test_eight_gpus_of_a_host_with_its_own_tools(kit_user: KitUser) -> None:
    nodes = kit_user.home / "nodes"
    nodes.mkdir()
    for minor in range(8):
        (nodes / f"nvidia{minor}").touch()
    env = add_tool(kit_user, "nvidia-smi", "")
    write_nvidia_smi(kit_user.home / "tools" / "nvidia-smi", count=8, gpu_class="nvlink")
    done = kit_user.run("topo", "--json", env=env | {"IMITATED_GPU_NODES": str(nodes)})
    assert (done.returncode, json.loads(done.stdout)["links"]) == (0, "nvlink-full")


@pytest.mark.docker
def test_the_gpus_behind_an_engine_are_seen_in_a_container(kit_user: KitUser, gpu_host: GpuHost) -> None:
    done = kit_user.run("doctor", "--json", "--host", gpu_host.docker_host)
    data = json.loads(done.stdout)
    facts = data["facts"]
    assert facts["probed_on"] == "here, GPUs in a container of gpuhost/busybox:1"
    assert [gpu["index"] for gpu in facts["gpus"]] == list(range(8))
    assert facts["gpus"][7]["compute_capability"] == "12.0"
    assert (facts["driver"]["version"], facts["driver"]["cuda"]) == ("580.126.09", "13.0")
    assert facts["engine"]["gpu_driver"] == "nvidia"
    assert facts["topology"]["numa_node_count"] == 2
    assert {one["code"] for one in data["findings"] if one["severity"] == "block"} == set()


@pytest.mark.docker
def test_a_stack_on_an_imitated_host_of_eight_gpus(kit_user: KitUser, gpu_host: GpuHost) -> None:
    done = kit_user.run("doctor", "ep4", "--gpus", "0-3", "--json", "--host", gpu_host.docker_host)
    codes = {one["code"] for one in json.loads(done.stdout)["findings"] if one["severity"] == "block"}
    assert codes >= {"gpu-count-mismatch"}
    assert "nvidia-toolkit-not-configured" not in codes


@pytest.mark.docker
def test_a_host_without_toolkit_is_told_by_a_short_container(
    kit_user: KitUser, gpuless_host: GpuHost
) -> None:
    facts = kit_user.json("doctor", "--host", gpuless_host.docker_host)["facts"]
    assert facts["engine"]["gpu_driver"] == "none"
    assert facts["gpus"] is None
