"""Where a stack goes: overlay with its reason, GPUs, and the architecture of those."""

import pytest
from planned import KIT, NVLINK, PCIE, host

from kitctl.errors import KitError
from kitctl.host.facts import HostFacts
from kitctl.kit.catalog import resolve_stack
from kitctl.plan.placement import Placement, place_stack
from kitctl.plan.types import Request


def place(stack: str, facts: HostFacts, **request: object) -> Placement:
    asked = Request(stack=stack, **request)  # type: ignore[arg-type]
    return place_stack(resolve_stack(KIT.texts, stack).stack, asked, overlays=KIT.overlays, facts=facts)


def names(placement: Placement) -> list[str]:
    return [overlay.name for overlay in placement.overlays]


def test_pcie_and_nvlink_hosts_get_their_overlay() -> None:
    pcie, nvlink = place("ep4", host(PCIE)), place("ep4", host(NVLINK))
    assert (names(pcie), names(nvlink)) == (["pcie"], ["nvlink"])
    assert (pcie.findings, nvlink.findings) == ((), ())
    assert dict(pcie.environment) == {"NCCL_P2P_LEVEL": "SYS"}
    assert dict(nvlink.environment) == {}
    assert pcie.gpus is not None
    assert (pcie.gpus.indices, pcie.archs) == (tuple(range(8)), ("12.0",))


def test_half_of_a_host_narrows_the_level() -> None:
    placement = place("ep4", host(PCIE), gpus="4-7")
    assert dict(placement.environment) == {"NCCL_P2P_LEVEL": "PHB"}
    assert [found.code for found in placement.findings] == ["gpu-count-mismatch"]


def test_the_overlay_asked_for_is_taken_and_the_reason_says_so() -> None:
    placement = place("ep4", host(NVLINK), overlay="pcie")
    assert names(placement) == ["pcie"]
    assert placement.overlay_reason.startswith("asked for; by its links (nvlink-full): ")


def test_unknown_links_take_the_safe_overlay_and_warn() -> None:
    placement = place("ep4", HostFacts())
    assert names(placement) == ["pcie"]
    assert [(found.code, found.severity.value) for found in placement.findings] == [
        ("gpus-unknown", "block"),
        ("links-unknown", "warn"),
    ]


def test_a_cpu_stack_reserves_nothing() -> None:
    placement = place("cpu-demo", host(PCIE))
    assert (names(placement), placement.gpus, placement.archs, placement.findings) == (["cpu"], None, (), ())
    assert placement.overlay_reason == "SGLang's CPU engine, no GPU: image stage cpu"


def test_gpus_named_for_a_stack_without_gpus_are_told_to_be_unused() -> None:
    (finding,) = place("cpu-demo", host(PCIE), gpus="0-3").findings
    assert (finding.code, finding.severity.value) == ("gpus-not-reserved", "note")
    assert finding.cause == "the overlay cpu reserves no GPUs, so --gpus 0-3 changes nothing"


def test_add_ons_come_after_the_host_kind() -> None:
    assert names(place("ep4", host(PCIE), addons=("rdma",))) == ["pcie", "rdma"]


def test_an_unknown_add_on_is_refused() -> None:
    with pytest.raises(KitError) as refused:
        place("ep4", host(PCIE), addons=("rdm",))
    assert (refused.value.cause, refused.value.evidence) == (
        "there is no overlay named 'rdm'",
        ("did you mean 'rdma'?",),
    )
