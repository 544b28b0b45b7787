"""A report keeps what tells the failure and loses who and where it was."""

import json

from kitctl.finding import Finding, Severity
from kitctl.host.facts import Container, Disk, Driver, Gpu, GpuProcess, HostFacts, Listener
from kitctl.host.redact import redact_text, redacted_report

UUID = "GPU-e363bee3-08ac-6c80-d1a8-b8d974b865dd"
FACTS = HostFacts(
    kernel="Linux 6.8.0",
    kernel_command_line="root=UUID=1234 ip=10.0.0.1 iommu=pt pci=realloc=off",
    gpus=(
        Gpu(
            index=0,
            name="NVIDIA H200",
            uuid=UUID,
            processes=(GpuProcess(pid=7, name="/home/ann/project/train", container="ann-train-1"),),
        ),
    ),
    driver=Driver(version="580.159.04", cuda="13.0"),
    containers=(Container(id="cd" * 32, name="ann-train-1", image="corp/train:1", project="ann"),),
    listeners=(Listener(port=30001, address="10.0.0.1", pid=7, holder="container ann-train-1"),),
    disks=(Disk(path="/mnt/ann/store", free_bytes=1, total_bytes=2, filesystem="/dev/sda1"),),
)
FINDING = Finding(
    code="gpu-occupied-by-other-process",
    severity=Severity.BLOCK,
    cause="GPU0 holds 22000 MiB of other work: ann-train-1 (pid 7)",
    evidence=(
        "pid 7 /home/ann/project/train 21990 MiB in container ann-train-1",
        f"on {UUID}",
        "/mnt/ann/store: full",
    ),
    remedy="docker stop ann-train-1",
)


def test_identities_are_masked_and_facts_are_kept() -> None:
    text = redacted_report(FACTS, [FINDING])
    for hidden in ("ann", "corp", "10.0.0.1", "1234", "e363bee3", "cdcdcd", "/mnt"):
        assert hidden not in text, hidden
    body = json.loads(text)
    assert body["facts"]["driver"]["version"] == "580.159.04"
    assert body["facts"]["kernel_command_line"] == "iommu=pt pci=realloc=off"
    assert body["facts"]["gpus"][0]["uuid"] == "GPU-0"
    assert body["findings"][0]["evidence"][1] == "on GPU-0"
    assert body["findings"][0]["code"] == "gpu-occupied-by-other-process"


def test_the_same_name_keeps_the_same_mask() -> None:
    body = json.loads(redacted_report(FACTS, [FINDING]))
    (process,) = body["facts"]["gpus"][0]["processes"]
    assert body["findings"][0]["remedy"] == f"docker stop {process['container']}"


def test_secrets_in_free_text() -> None:
    text = redact_text(
        "HF_TOKEN=abcdef api-key: xyz hf_ABCDEFGHIJKLMNOPQRST ann@example.org /home/ann/x 127.0.0.1"
    )
    assert text == "HF_TOKEN=<masked> api-key: <masked> <masked> <address> /home/<user>/x 127.0.0.1"
