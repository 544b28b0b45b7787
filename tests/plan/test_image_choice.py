"""The image follows from the pin set; ``--image`` and a stack's own reference replace it."""

import pytest
from planned import KIT_DIR

from kitctl.edge.kit_files import load_pin_texts
from kitctl.errors import Exit, KitError
from kitctl.kit.stack import Image, Stack
from kitctl.plan.driver_checks import arch_serves
from kitctl.plan.image_choice import choose_image
from kitctl.plan.types import Request

PINS = load_pin_texts(KIT_DIR, "sglang")


def choose(of_stack: Image, **request: str) -> tuple[str, str | None, str, bool]:
    stack = Stack(name="x", summary="s", model="m", image=of_stack)
    found = choose_image(stack, Request(stack="x", **request), pin_texts=PINS)  # type: ignore[arg-type]
    return found.reference, found.release, found.stage, found.pins_hash is not None


def test_the_kits_image_is_named_after_pins_and_stage() -> None:
    gpu, cpu = choose(Image()), choose(Image(stage="cpu"))
    assert gpu[0].startswith("kitctl/sglang:0.5.16-13.0-gpu-")
    assert cpu[0].startswith("kitctl/sglang:0.5.16-13.0-cpu-")
    assert (gpu[1:], cpu[1:]) == (("0.5.16", "gpu", True), ("0.5.16", "cpu", True))


@pytest.mark.parametrize("release", ["0.5.16", "0.5.23"])
def test_the_archs_of_a_gpu_image_are_those_that_its_kernels_serve(release: str) -> None:
    """sglang-kernel's code for 12.0 is sm_120a: 12.1 is in the pin set's list, and nothing of the image serves it."""
    stack = Stack(name="x", summary="s", model="m", image=Image(release=release))
    found = choose_image(stack, Request(stack="x"), pin_texts=PINS)
    assert found.archs == ("12.0a", "10.0", "10.3", "9.0")
    served = [
        cap
        for cap in ("12.0", "12.1", "10.0", "10.3", "9.0")
        if any(arch_serves(a, cap) for a in found.archs)
    ]
    assert served == ["12.0", "10.0", "10.3", "9.0"]


def test_a_change_of_the_lock_changes_the_tag() -> None:
    stack = Stack(name="x", summary="s", model="m")
    changed = PINS | {"0.5.16/constraints.txt": PINS["0.5.16/constraints.txt"] + "# changed\n"}
    tags = {choose_image(stack, Request(stack="x"), pin_texts=pins).reference for pins in (PINS, changed)}
    assert len(tags) == 2


def test_another_image_keeps_the_release_that_spells_its_flags() -> None:
    assert choose(Image(reference="own/ddtree:1")) == ("own/ddtree:1", "0.5.16", "gpu", False)
    assert choose(Image(reference="own/ddtree:1"), image="mine:2") == ("mine:2", "0.5.16", "gpu", False)


def test_a_release_that_cannot_be_built_says_why() -> None:
    with pytest.raises(KitError) as refused:
        choose(Image(release="0.5.19"))
    assert refused.value.exit_code is Exit.USAGE
    assert "cuda-tile" in " ".join((refused.value.cause, *refused.value.evidence))


def test_an_unknown_release_is_refused() -> None:
    with pytest.raises(KitError) as refused:
        choose(Image(release="0.4"))
    assert refused.value.exit_code is Exit.USAGE
