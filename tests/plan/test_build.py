"""A pin set and a machine are decided down to one build, and an unchanged build is known by its label."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from kitctl.errors import KitError
from kitctl.kit.pins import LOCK_FILES, PinSet, base_tag, load_pin_set, read_pins
from kitctl.plan.base_recipe import root_fs_argv
from kitctl.plan.build import (
    Base,
    BaseKind,
    BuildRequest,
    choose_base,
    choose_jit_archs,
    choose_platform,
    is_current,
    plan_build,
)
from kitctl.plan.machine_config import AptSource

IMAGE = Path(__file__).parents[2] / "images" / "sglang"
DIGEST = "debian@sha256:" + "a" * 64


@pytest.fixture(name="pin_set")
def default_pin_set() -> PinSet:
    pins = read_pins((IMAGE / "pins.toml").read_text(encoding="utf-8"), source="pins.toml")
    return load_pin_set(pins, "0.5.16", dict.fromkeys(LOCK_FILES, "x"))


def plan(
    pin_set: PinSet,
    *,
    stage: str = "gpu",
    dockerfile: str = "FROM x",
    jit_archs: tuple[str, ...] = (),
    more: Mapping[str, str] | None = None,
) -> BuildRequest:
    return plan_build(
        pin_set,
        stage,
        base=choose_base(pin_set, None),
        platform="linux/amd64",
        recipe={"Dockerfile": dockerfile, **(more or {})},
        revision="abc",
        jit_archs=jit_archs,
    )


def test_the_base_is_the_kits_own_unless_given(pin_set: PinSet) -> None:
    own = base_tag(pin_set.base, pin_set.build)
    assert choose_base(pin_set, None) == Base(reference=own, kind=BaseKind.KIT)
    assert choose_base(pin_set, DIGEST) == Base(reference=DIGEST, kind=BaseKind.DIGEST)
    assert choose_base(pin_set, "debian:12") == Base(reference="debian:12", kind=BaseKind.UNLOCKED)


def test_a_platform_without_a_lock_is_refused(pin_set: PinSet) -> None:
    assert choose_platform(pin_set, None) == "linux/amd64"
    with pytest.raises(KitError) as refused:
        choose_platform(pin_set, "linux/arm64")
    assert refused.value.cause == "sglang 0.5.16 is not locked for linux/arm64; did you mean 'linux/amd64'?"


def test_the_request_names_all_that_decides_the_image(pin_set: PinSet) -> None:
    request = plan(pin_set)
    assert request.reference == f"kitctl/sglang:0.5.16-13.0-gpu-{pin_set.pins_hash[:12]}"
    assert request.build_args == {"BASE": request.base.reference, "SOURCE_DATE_EPOCH": "1767225600"}
    assert request.labels == {
        "org.opencontainers.image.title": "sglang (gpu)",
        "org.opencontainers.image.version": "0.5.16",
        "org.opencontainers.image.base.name": request.base.reference,
        "org.opencontainers.image.revision": "abc",
        "kitctl.release": "0.5.16",
        "kitctl.stage": "gpu",
        "kitctl.cuda": "13.0",
        "kitctl.arch": "12.0 10.0 10.3 9.0 12.1",
        "kitctl.base": "kit",
        "kitctl.pins": pin_set.pins_hash,
        "kitctl.inputs": request.inputs_hash,
    }


def test_run_time_kernels_are_those_of_the_pin_set_unless_told_otherwise(pin_set: PinSet) -> None:
    assert choose_jit_archs(pin_set, "gpu", ()) == ("12.0",)
    assert choose_jit_archs(pin_set, "gpu", ("none",)) == ()
    assert choose_jit_archs(pin_set, "cpu", ()) == ()
    assert choose_jit_archs(pin_set, "gpu", ("9.0", "10.3")) == ("9.0", "10.3")
    for stage, given in (("gpu", "8.0"), ("cpu", "12.0")):
        with pytest.raises(KitError) as refused:
            choose_jit_archs(pin_set, stage, (given,))
        assert refused.value.cause == f"sglang 0.5.16 ({stage}) is not built for {given}"


def test_run_time_kernels_need_a_list_and_are_named_by_a_label(pin_set: PinSet) -> None:
    with pytest.raises(KitError) as refused:
        plan(pin_set, jit_archs=("12.0",))
    assert refused.value.remedy == "kitctl build sglang --release 0.5.16 --jit-arch none"
    request = plan(pin_set, jit_archs=("12.0", "9.0"), more={"0.5.16/kernels.json": "[]"})
    assert request.build_args["JIT_ARCHS"] == "12.0 9.0"
    assert request.labels["kitctl.kernels"] == "12.0 9.0"
    other = plan(pin_set, jit_archs=("12.0", "9.0"), more={"0.5.16/kernels.json": "[{}]"})
    assert not is_current(request.labels, other)


def test_only_the_same_inputs_make_a_build_needless(pin_set: PinSet) -> None:
    request = plan(pin_set)
    assert is_current(request.labels, plan(pin_set))
    assert not is_current(request.labels, plan(pin_set, dockerfile="FROM y"))
    assert not is_current(request.labels, plan(pin_set, stage="cpu"))
    assert not is_current(None, request)


def test_the_base_command_uses_the_machines_mirrors_and_leaves_the_public_ones(pin_set: PinSet) -> None:
    argv = root_fs_argv(
        pin_set.base,
        own_sources=(AptSource(uri="http://mirror/debian", suite="bookworm", components=("main",)),),
        apt_options=('Acquire::http::Proxy "http://proxy:3128";',),
        netrc_path="/home/u/.netrc",
        target="/t/rootfs.tar",
    )
    assert argv[-3:] == ("bookworm", "/t/rootfs.tar", "deb http://mirror/debian bookworm main")
    assert '--aptopt=Acquire::http::Proxy "http://proxy:3128";' in argv
    left = next(word for word in argv if "sources.list" in word)
    assert "deb http://deb.debian.org/debian bookworm main" in left
    assert "mirror" not in left
    assert '--customize-hook=rm -f "$1"/etc/apt/auth.conf.d/machine.conf' in argv
