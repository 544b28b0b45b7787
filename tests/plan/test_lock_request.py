"""A pin set is locked by one command that names no index address."""

from pathlib import Path

from kitctl.kit.pins import read_pins
from kitctl.plan.lock_request import compile_argv, fetch_source_argv, requirements_text

PINS = Path(__file__).parents[2] / "images" / "sglang" / "pins.toml"
ENTRY = read_pins(PINS.read_text(encoding="utf-8"), source="pins.toml").pin_sets["0.5.16"]


def test_exact_versions_come_first_then_ranges_with_extras() -> None:
    lines = requirements_text(ENTRY).splitlines()
    assert lines[:3] == ["sglang==0.5.16", "sglang-kernel==0.4.5", "torch==2.11.0"]
    assert lines[-1] == "cuda-toolkit[nvcc,cccl,cudart,nvrtc,crt,nvvm,nvjitlink]==13.0.*"


def test_the_command_resolves_for_the_images_python_with_hashes() -> None:
    argv = compile_argv("uv", ENTRY)
    assert argv[:4] == ("uv", "pip", "compile", "-")
    assert {"--generate-hashes", "--no-emit-index-url", "3.11", "x86_64-manylinux_2_36"} <= set(argv)


def test_only_the_engines_own_wheel_is_unpacked() -> None:
    argv = fetch_source_argv("uv", ENTRY, engine="sglang", folder="/t")
    assert argv[-1] == "sglang==0.5.16"
    assert "--no-deps" in argv
