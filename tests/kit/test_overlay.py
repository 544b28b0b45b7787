"""An overlay carries environment, limits and its block for kitctl, and nothing that compose would double."""

from typing import Any

import pytest
from planned import KIT

from kitctl.errors import Exit, KitError
from kitctl.kit.overlay import NcclLevel, P2pLevel, Reservations, read_overlay

BLOCK = {"summary": "s"}


def read(tree: dict[str, Any]) -> Any:
    return read_overlay("mine", tree, source="mine.yaml", text="text")


def test_environment_is_text_as_the_process_sees_it() -> None:
    environment = {"A": 1, "B": "x", "C": 2.5, "D": "5$$ and $$HOME"}
    overlay = read({"services": {"engine": {"environment": environment}}, "x-kitctl": BLOCK})
    assert overlay.environment == {"A": "1", "B": "x", "C": "2.5", "D": "5$ and $HOME"}


def test_an_empty_overlay_needs_only_its_summary() -> None:
    overlay = read({"services": None, "x-kitctl": BLOCK})
    assert (overlay.environment, overlay.ulimits, overlay.block.links) == ({}, {}, ())
    assert overlay.block.reservations is Reservations.GPU


@pytest.mark.parametrize(
    ("tree", "cause"),
    [
        ({}, "mine.yaml: x-kitctl: Object missing required field `summary`"),
        ({"x-kitctl": {"summary": "s", "link": []}}, "mine.yaml: x-kitctl: link: unknown key"),
        ({"x-kitctl": {"summary": "s", "p2p_level": {"within_numa": "5", "across_numa": "SYS"}}},
         "mine.yaml: x-kitctl: p2p_level.within_numa: Invalid enum value '5'"),
        ({"x-kitctl": BLOCK, "services": []}, "mine.yaml: services: must be a mapping"),
        ({"x-kitctl": BLOCK, "services": {"engine": 3}}, "mine.yaml: services: engine: must be a mapping"),
        ({"x-kitctl": BLOCK, "services": {"engine": {"environment": ["A=1"]}}},
         "mine.yaml: services.engine: environment: must be a mapping"),
        ({"x-kitctl": BLOCK, "services": {"engine": {"environment": {"A": "${HOME}"}}}},
         "mine.yaml: services.engine.environment.A: the value must stand in the file itself, as text or number"),
        ({"x-kitctl": BLOCK, "services": {"engine": {"environment": {"A": None}}}},
         "mine.yaml: services.engine.environment.A: the value must stand in the file itself, as text or number"),
        ({"x-kitctl": BLOCK, "services": {"engine": {"command": ["--x"]}}},
         "mine.yaml: services.engine.command may not stand in an overlay"),
        ({"x-kitctl": BLOCK, "services": {"engine": {"deploy": {}}}},
         "mine.yaml: services.engine.deploy may not stand in an overlay"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(tree: dict[str, Any], cause: str) -> None:
    with pytest.raises(KitError) as refused:
        read(tree)
    assert refused.value.cause == cause
    assert (refused.value.code, refused.value.exit_code) == ("bad-overlay", Exit.USAGE)


def test_overlays_of_the_kit() -> None:
    assert {name: overlay.block.links for name, overlay in KIT.overlays.items() if overlay.block.links} == {
        "cpu": ("none",),
        "nvlink": ("nvlink-full",),
        "pcie": ("pcie", "nvlink-partial", "single"),
    }
    levels = P2pLevel(within_numa=NcclLevel.PHB, across_numa=NcclLevel.SYS)
    assert KIT.overlays["pcie"].block.p2p_level == levels
    assert KIT.overlays["nvlink"].environment == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
