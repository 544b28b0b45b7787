"""The collective proof is asked rightly, read strictly, judged, and void when the host changes."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kitctl.edge.collective_runner import collective_settings
from kitctl.edge.host_data import load_host_tables
from kitctl.finding import Finding, Severity
from kitctl.host.facts import Driver, Gpu, HostFacts, Topology
from kitctl.plan.collective import (
    Proof,
    Row,
    Told,
    Trial,
    hindrances,
    job_text,
    judge_proof,
    probe_argv,
    proof_key,
    read_trial,
)
from kitctl.plan.types import GpuDriver, GpuReservation

CASES = Path(__file__).parent.parent / "cases"
SETTINGS = collective_settings()
BOOK = load_host_tables().book
PAIR = GpuReservation(driver=GpuDriver.NVIDIA, ids=("0", "1"), indices=(0, 1))


def trial(gb_per_s: float, *, wrong: int = 0) -> Trial:
    small = Row(size_bytes=16384, wrong_elements=0, time_us=49.21, bus_gb_per_s=0.333)
    large = Row(size_bytes=268435456, wrong_elements=wrong, time_us=906.42, bus_gb_per_s=gb_per_s)
    return Trial(told=Told(world=2, backend="nccl", nccl="2.28.9", rows=(small, large)))


def proof(planned: Trial, without: Trial, **other: Any) -> Proof:
    fields = {"key": "k", "gpus": (0, 1), "links": "pcie", "limit_s": 120.0, "at_utc": "2026-11-29T16:00:00Z"}
    return Proof(planned=planned, without_p2p=without, **(fields | other))


def judged(planned: Trial, without: Trial, **other: Any) -> list[tuple[str, Severity, str]]:
    found = judge_proof(proof(planned, without, **other), book=BOOK, settings=SETTINGS)
    return [(one.code, one.severity, one.cause) for one in found]


def test_what_two_h200_gave_is_fine() -> None:
    """Measured on 2x H200, NCCL 2.28.9: 296 GB/s over NVLink, 27 GB/s with P2P off."""
    measured = msgspec.json.decode((CASES / "answers" / "h200-2x.collective.json").read_text(), type=Proof)
    (found,) = judge_proof(measured, book=BOOK, settings=SETTINGS)
    assert (found.code, found.severity) == ("collective-proven", Severity.NOTE)
    assert found.cause == "all-reduce over GPUs 0,1 is right; P2P 296.1 GB/s, host memory 26.9 GB/s"


def test_nvlink_that_goes_through_host_memory_is_told() -> None:
    ((code, severity, _),) = judged(trial(27.3), trial(26.9), links="nvlink-full")
    assert (code, severity) == ("p2p-slower-than-host-memory", Severity.WARN)


def test_verdicts() -> None:
    assert judged(trial(20.0), trial(24.0)) == [
        (
            "p2p-slower-than-host-memory",
            Severity.WARN,
            "P2P moves 20.0 GB/s and host memory 24.0 GB/s: P2P works and does not pay",
        )
    ]
    assert judged(trial(40.0, wrong=7), trial(24.0)) == [
        (
            "collective-wrong-answer",
            Severity.BLOCK,
            "an all-reduce over GPUs 0,1 gave a wrong answer with P2P as planned",
        )
    ]
    assert judged(Trial(hung=True), trial(24.0)) == [
        (
            "collective-hangs",
            Severity.BLOCK,
            "an all-reduce over GPUs 0,1 gave no answer in 120 s with P2P as planned",
        )
    ]
    both = judged(Trial(last_lines=("NCCL error",)), Trial(last_lines=("NCCL error",)))
    assert [code for code, _, _ in both] == ["collective-fails", "collective-fails"]


def test_a_cpu_has_no_control() -> None:
    on_cpu = msgspec.structs.replace(proof(trial(0.5), trial(0.5), gpus=(), links=None), without_p2p=None)
    (told,) = judge_proof(on_cpu, book=BOOK, settings=SETTINGS)
    assert (told.code, told.severity) == ("collective-proven-on-cpu", Severity.NOTE)


def test_the_probe_runs_on_exactly_the_reserved_gpus_without_network() -> None:
    argv = probe_argv(
        "image:1",
        "SCRIPT",
        name="n",
        gpus=PAIR,
        environment={"NCCL_P2P_LEVEL": "SYS", "HF_HUB_OFFLINE": "1"},
        settings=SETTINGS,
    )
    assert argv[argv.index("--gpus") + 1] == '"device=0,1"'
    assert argv[argv.index("--network") + 1] == "none"
    assert "NCCL_P2P_LEVEL=SYS" in argv
    assert "HF_HUB_OFFLINE=1" not in argv
    assert argv[-4:-1] == ("image:1", "-c", "SCRIPT")
    assert json.loads(argv[-1]) == {
        "world": 2,
        "backend": "nccl",
        "sizes_bytes": [16384, 268435456],
        "rounds": 10,
        "timeout_s": 120.0,
    }


def test_cdi_and_cpu_are_asked_in_their_own_way() -> None:
    cdi = GpuReservation(driver=GpuDriver.CDI, ids=("nvidia.com/gpu=2",), indices=(2,))
    argv = probe_argv("i", "s", name="n", gpus=cdi, environment={}, settings=SETTINGS)
    assert argv[argv.index("--device") + 1] == "nvidia.com/gpu=2"
    on_cpu = json.loads(job_text(GpuReservation(driver=GpuDriver.NONE), SETTINGS))
    assert (on_cpu["backend"], on_cpu["world"]) == ("gloo", 2)


def test_reading_a_run() -> None:
    told = trial(296.149).told
    assert told is not None
    line = f"kitctl-collective {msgspec.json.encode(told).decode()}"
    assert read_trial(f"noise\n{line}\n", "", exit_code=0) == trial(296.149)
    assert read_trial(f"{line}\n", "", exit_code=1).told is None
    assert read_trial("", "a\nb\n", exit_code=1) == Trial(last_lines=("a", "b"))
    assert read_trial("", "", exit_code=None) == Trial(hung=True)


FACTS = HostFacts(
    kernel="Linux 6.18",
    kernel_command_line="iommu=pt",
    driver=Driver(version="580.159.04"),
    gpus=(Gpu(index=0, name="a", uuid="u0"), Gpu(index=1, name="a", uuid="u1")),
    topology=Topology(gpu_indices=(0, 1), links=(("X", "SYS"), ("SYS", "X"))),
)


@pytest.mark.parametrize(
    "other",
    [
        {"kernel": "Linux 6.19"},
        {"kernel_command_line": "iommu=off"},
        {"driver": Driver(version="580.160")},
        {"topology": Topology(gpu_indices=(0, 1), links=(("X", "NV18"), ("NV18", "X")))},
        {"acs_redirect_bridges": ("0000:00:01.1",)},
    ],
)
def test_a_proof_is_void_when_the_host_changes(other: dict[str, Any]) -> None:
    assert proof_key(FACTS, (0, 1)) == proof_key(msgspec.structs.replace(FACTS, cpus=7), (0, 1))
    assert proof_key(FACTS, (0, 1)) != proof_key(msgspec.structs.replace(FACTS, **other), (0, 1))
    assert proof_key(FACTS, (0, 1)) != proof_key(FACTS, (0,))


def test_only_what_would_make_it_fail_by_itself_is_in_the_way() -> None:
    def block(code: str) -> Finding:
        return Finding(code=code, severity=Severity.BLOCK, cause="c", remedy="r")

    findings = [block("gpu-occupied-by-other-process"), block("model-unlocked"), block("disk-too-small")]
    assert [found.code for found in hindrances(findings)] == ["gpu-occupied-by-other-process"]
