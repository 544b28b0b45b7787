"""Pin sets: chosen by release and CUDA, refused by name with the reason, and they name their image."""

from pathlib import Path

import pytest

from kitctl.errors import Exit, KitError
from kitctl.kit.pins import (
    LOCK_FILES,
    PinFile,
    base_tag,
    choose_release,
    image_tag,
    load_pin_set,
    lock_of,
    read_pins,
)

IMAGE = Path(__file__).parents[2] / "images" / "sglang"
TEXT = (IMAGE / "pins.toml").read_text(encoding="utf-8")


@pytest.fixture(name="pins")
def kit_pins() -> PinFile:
    return read_pins(TEXT, source="images/sglang/pins.toml")


def lock(release: str) -> dict[str, str]:
    return {name: (IMAGE / release / name).read_text(encoding="utf-8") for name in LOCK_FILES}


def test_without_a_wish_the_default_is_chosen(pins: PinFile) -> None:
    assert choose_release(pins) == "0.5.16"
    assert choose_release(pins, cuda="13.0") == "0.5.16"
    assert choose_release(pins, release="0.5.23", cuda="13.0") == "0.5.23"


@pytest.mark.parametrize("release", ["0.5.18", "0.5.19", "0.5.20", "0.5.21", "0.5.22"])
def test_releases_that_the_index_cannot_serve_are_refused_with_the_reason(
    pins: PinFile, release: str
) -> None:
    with pytest.raises(KitError) as refused:
        choose_release(pins, release=release)
    assert (refused.value.code, refused.value.exit_code) == ("refused-release", Exit.USAGE)
    assert refused.value.cause == (
        f"sglang {release} cannot be built: it requires cuda-tile==1.6.0rc5, of which PyPI serves only a "
        "placeholder that refuses to install"
    )


def test_an_unknown_release_gets_a_near_one(pins: PinFile) -> None:
    with pytest.raises(KitError) as refused:
        choose_release(pins, release="0.5.61")
    assert refused.value.cause == "sglang has no pin set '0.5.61'; did you mean '0.5.16'?"
    assert refused.value.evidence == ("existing: 0.5.16 (CUDA 13.0, default), 0.5.23 (CUDA 13.0, candidate)",)


def test_an_impossible_pair_shows_what_exists(pins: PinFile) -> None:
    with pytest.raises(KitError) as refused:
        choose_release(pins, release="0.5.16", cuda="12.8")
    assert refused.value.code == "no-such-pair"
    assert refused.value.cause == "there is no pin set for sglang 0.5.16 with CUDA 12.8"
    assert refused.value.remedy == "kitctl build sglang --cuda 13.0"
    with pytest.raises(KitError) as none:
        choose_release(pins, cuda="14.0")
    assert none.value.cause == "there is no pin set for sglang with CUDA 14.0"


def test_the_image_is_named_by_release_cuda_stage_and_hash(pins: PinFile) -> None:
    pin_set = load_pin_set(pins, "0.5.16", lock("0.5.16"))
    assert image_tag(pin_set, "gpu") == f"kitctl/sglang:0.5.16-13.0-gpu-{pin_set.pins_hash[:12]}"
    assert base_tag(pin_set.base, pin_set.build).startswith("kitctl/base:debian-bookworm-")


def test_one_changed_hash_in_the_lock_changes_the_name(pins: PinFile) -> None:
    texts = lock("0.5.16")
    changed = texts | {"constraints.txt": texts["constraints.txt"].replace("sha256:0", "sha256:1", 1)}
    before, after = (load_pin_set(pins, "0.5.16", one).pins_hash for one in (texts, changed))
    assert before != after


def test_a_candidate_that_becomes_the_default_stays_the_same_image() -> None:
    promoted = read_pins(TEXT.replace('status = "candidate"', 'status = "other"'), source="x")
    now = read_pins(TEXT, source="x")
    texts = lock("0.5.23")
    hashes = {load_pin_set(one, "0.5.23", texts).pins_hash for one in (now, promoted)}
    assert len(hashes) == 1


def test_a_release_without_its_lock_names_the_missing_files(pins: PinFile) -> None:
    with pytest.raises(KitError) as refused:
        load_pin_set(pins, "0.5.16", {"constraints.txt": ""})
    assert refused.value.cause == "sglang 0.5.16 has no cpu-heavy.txt, cpu.txt, gpu-heavy.txt, gpu.txt"
    assert refused.value.remedy == "kitctl images lock sglang --release 0.5.16"


def test_the_lock_is_picked_out_of_the_folder_by_release() -> None:
    texts = {"0.5.16/cpu.txt": "a", "0.5.23/cpu.txt": "b", "pins.toml": ""}
    assert lock_of(texts, "0.5.23") == {"cpu.txt": "b"}


def test_an_unknown_key_names_file_and_near_key() -> None:
    with pytest.raises(KitError) as refused:
        read_pins(TEXT.replace('python = "3.11"', 'pyhton = "3.11"', 1), source="images/sglang/pins.toml")
    assert refused.value.cause == "images/sglang/pins.toml: pin_sets[...].pyhton: unknown key"


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ('"12.0", "10.0"', '"12.0", "8.7", "10.0"', "arch 8.7 has no entry in memory_mib"),
        ('jit_arch = ["12.0"]', 'jit_arch = ["8.0"]', "arch 8.0 is not in its arch list"),
    ],
)
def test_an_arch_that_the_file_does_not_know_is_refused(old: str, new: str, cause: str) -> None:
    with pytest.raises(KitError) as refused:
        read_pins(TEXT.replace(old, new, 1), source="pins.toml")
    assert refused.value.cause == f"pins.toml: pin_sets.0.5.16: {cause}"
