"""A lock's packages are read with who asked for them, and each gets exactly one layer."""

from pathlib import Path

import pytest

from kitctl.errors import KitError
from kitctl.kit.constraints import Layers, Locked, read_constraints, split_layers
from kitctl.kit.pins import LOCK_FILES, LayerRule, read_pins

IMAGE = Path(__file__).parents[2] / "images" / "sglang"
RELEASES = ["0.5.16", "0.5.23"]
HASH = "sha256:" + "0" * 64
TEXT = f"""big==1.0 \\
    --hash={HASH}
    # via engine
engine==2.0 \\
    --hash={HASH}
    # via -r -
kernel==3.0 \\
    --hash={HASH} \\
    --hash={HASH}
    # via engine
small==4.0 \\
    --hash={HASH}
    # via
    #   big
    #   engine
tool==5.0 \\
    --hash={HASH}
    # via big
"""


def rule(**changed: tuple[str, ...]) -> LayerRule:
    given = {"cpu_roots": ("big",), "gpu_only": ("tool",), "heavy": ("b*", "k*")} | changed
    return LayerRule(engine="engine", **given)


def test_a_block_has_version_hashes_and_askers() -> None:
    packages = read_constraints(TEXT)
    assert packages["small"] == Locked(
        name="small", version="4.0", hashes=(HASH,), needed_by=("big", "engine")
    )
    assert packages["kernel"].hashes == (HASH, HASH)
    assert packages["engine"].needed_by == ()


def test_the_engine_does_not_pull_its_kernels_into_the_cpu_layers() -> None:
    assert split_layers(read_constraints(TEXT), rule()) == Layers(
        cpu_heavy=("big",), cpu=("engine", "small"), gpu_heavy=("kernel",), gpu=("tool",)
    )


def test_a_root_that_the_lock_does_not_hold_is_named() -> None:
    with pytest.raises(KitError) as refused:
        split_layers(read_constraints(TEXT), rule(cpu_roots=("big", "bigg")))
    assert refused.value.cause == "layers.cpu_roots names packages that the lock does not hold: bigg"


@pytest.mark.parametrize("release", RELEASES)
def test_every_package_of_the_kits_locks_lies_in_one_layer(release: str) -> None:
    pins = read_pins((IMAGE / "pins.toml").read_text(encoding="utf-8"), source="pins.toml")
    texts = {name: (IMAGE / release / name).read_text(encoding="utf-8") for name in LOCK_FILES}
    packages = read_constraints(texts["constraints.txt"])
    assert split_layers(packages, pins.layers).files() == {
        name: text for name, text in texts.items() if name != "constraints.txt"
    }
    listed = [
        package for name, text in texts.items() if name != "constraints.txt" for package in text.split()
    ]
    assert sorted(listed) == sorted(packages)


@pytest.mark.parametrize("release", RELEASES)
def test_every_package_of_the_kits_locks_has_a_hash_and_the_pinned_version(release: str) -> None:
    pins = read_pins((IMAGE / "pins.toml").read_text(encoding="utf-8"), source="pins.toml")
    packages = read_constraints((IMAGE / release / "constraints.txt").read_text(encoding="utf-8"))
    assert [name for name, locked in packages.items() if not locked.hashes] == []
    pinned = pins.pin_sets[release].versions
    assert {name: packages[name].version for name in pinned} == pinned


@pytest.mark.parametrize("release", RELEASES)
def test_all_of_cuda_is_13_0(release: str) -> None:
    packages = read_constraints((IMAGE / release / "constraints.txt").read_text(encoding="utf-8"))
    compilers = ["nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-cccl", "nvidia-nvjitlink",
                 "nvidia-cuda-runtime", "nvidia-cuda-nvrtc"]  # fmt: skip
    assert {name: packages[name].version[:5] for name in compilers} == dict.fromkeys(compilers, "13.0.")


@pytest.mark.parametrize("release", RELEASES)
def test_a_lock_tells_nothing_of_the_machine_that_made_it(release: str) -> None:
    for name in LOCK_FILES:
        text = (IMAGE / release / name).read_text(encoding="utf-8")
        assert "://" not in text
        assert "index" not in text.replace("httpx2", "")
