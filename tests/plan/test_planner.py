"""One stack on one host, decided down to argv, environment, GPUs, mounts, with the reason of each."""

from typing import Any

import pytest
from planned import COMMIT, HOST_NAMES, NVLINK, PCIE, STACKS, host, planned

from kitctl.host.facts import HostFacts
from kitctl.plan.types import GpuDriver, GpuReservation, Mount, Published


def test_ep4_dflash_on_a_pcie_host() -> None:
    plan = planned("ep4-dflash", host(PCIE))
    assert plan.argv == (
        "--model-path", f"/models/moonshotai--Kimi-K2.6/snapshots/{COMMIT}",
        "--served-model-name", "kimi-k2.6",
        "--host", "0.0.0.0",
        "--port", "30000",
        "--trust-remote-code",
        "--tp-size", "8",
        "--ep-size", "4",
        "--mem-fraction-static", "0.85",
        "--context-length", "32768",
        "--max-running-requests", "128",
        "--grammar-backend", "none",
        "--reasoning-parser", "kimi_k2",
        "--tool-call-parser", "kimi_k2",
        "--cuda-graph-backend-prefill", "disabled",
        "--cuda-graph-max-bs-decode", "32",
        "--speculative-algorithm", "DFLASH",
        "--speculative-draft-model-path", f"/models/SubSir--Kimi-K2.6-DFlash-tmp-long/snapshots/{COMMIT}",
        "--speculative-dflash-block-size", "8",
        "--enable-metrics",
        "--disable-custom-all-reduce",
    )  # fmt: skip
    assert plan.environment == {
        "NCCL_P2P_LEVEL": "SYS",
        "NCCL_IB_DISABLE": "1",
        "NCCL_MIN_NCHANNELS": "8",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    assert plan.gpus == GpuReservation(
        driver=GpuDriver.NVIDIA, ids=tuple("01234567"), indices=tuple(range(8))
    )
    assert plan.mounts[:2] == (
        Mount(
            kind="bind",
            source="/store/models--moonshotai--Kimi-K2.6",
            target="/models/moonshotai--Kimi-K2.6",
            read_only=True,
        ),
        Mount(
            kind="bind",
            source="/store/models--SubSir--Kimi-K2.6-DFlash-tmp-long",
            target="/models/SubSir--Kimi-K2.6-DFlash-tmp-long",
            read_only=True,
        ),
    )
    assert (plan.mounts[2].kind, plan.mounts[2].target, plan.mounts[2].read_only) == (
        "volume",
        "/cache",
        False,
    )
    assert plan.mounts[2].source.endswith("-gpu-120")
    assert plan.published == Published(bind="127.0.0.1", port=30001, container_port=30000)
    assert (plan.project, plan.overlays, plan.model_name) == ("kitctl-ep4-dflash", ("pcie",), "kimi-k2.6")


def test_hosts_differ_only_by_what_the_overlays_say() -> None:
    pcie, nvlink = planned("ep4-dflash", host(PCIE)), planned("ep4-dflash", host(NVLINK))
    assert [word for word in pcie.argv if word not in nvlink.argv] == ["--disable-custom-all-reduce"]
    assert [word for word in nvlink.argv if word not in pcie.argv] == []
    assert nvlink.environment == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert (pcie.gpus, pcie.mounts, pcie.published, pcie.image) == (
        nvlink.gpus,
        nvlink.mounts,
        nvlink.published,
        nvlink.image,
    )


@pytest.mark.parametrize(
    ("driver", "kind", "first"), [("cdi", "cdi", "nvidia.com/gpu=0"), (None, "nvidia", "0")]
)
def test_the_reservation_goes_the_way_that_the_engine_knows(driver: str, kind: str, first: str) -> None:
    plan = planned("ep4", host(PCIE, driver=driver))
    assert (plan.gpus.driver.value, plan.gpus.ids[0], len(plan.gpus.ids)) == (kind, first, 8)


def test_each_choice_says_what_decided_it() -> None:
    plan = planned("ep4", host(PCIE), port=4000, bind="0.0.0.0", settings=(("parallel.tp", 8),))
    wanted = {
        "engine.mem_fraction_static": "set in compose/parts/kimi-k2.6.yaml",
        "parallel.ep": "set in compose/stacks/ep4.yaml",
        "parallel.tp": "set in --set parallel.tp",
        "serve.port": "set by --port",
        "serve.bind": "set by --bind",
        "image": "release 0.5.16, stage gpu",
    }
    assert {key: plan.why[key] for key in wanted} == wanted
    assert "overlay" in plan.why
    assert "gpus" in plan.why


def test_flags_after_the_dashes_come_last() -> None:
    plan = planned("ep4", host(PCIE), engine_flags=("--log-level", "debug"))
    assert plan.argv[-2:] == ("--log-level", "debug")


def test_the_stacks_environment_wins_over_host_kind() -> None:
    plan = planned("ep4", host(PCIE), settings=(("environment.NCCL_P2P_LEVEL", "PXB"),))
    assert plan.environment["NCCL_P2P_LEVEL"] == "PXB"


@pytest.mark.parametrize("name", HOST_NAMES)
@pytest.mark.parametrize("stack", STACKS)
def test_any_stack_is_planned_on_any_host(stack: str, name: str) -> None:
    plan = planned(stack, host(name))
    known = {"gpu-count-mismatch", "links-unknown"}
    assert plan.argv[0] == "--model-path"
    assert {found.code for found in plan.findings} <= known
    assert all(isinstance(reason, str) and reason for reason in plan.why.values())


def test_without_facts_a_stack_is_still_planned() -> None:
    plan: Any = planned("ep4", HostFacts())
    assert (plan.overlays, plan.gpus.ids) == (("pcie",), tuple("01234567"))
