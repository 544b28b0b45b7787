"""A build leaks nothing of the machine, is the same twice, and is a no-op when nothing changed."""

import json
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from kitctl.edge.base_image import ensure_base_image, make_root_fs
from kitctl.edge.builder import run_build
from kitctl.edge.docker_engine import image_labels
from kitctl.edge.image_store import recipe_texts
from kitctl.edge.inside import run_inside
from kitctl.edge.machine import read_machine_config
from kitctl.kit.pins import LOCK_FILES, PinSet, load_pin_set, read_pins
from kitctl.plan.build import BuildRequest, choose_base, is_current, plan_build
from kitctl.plan.image_diff import diff_contents, read_contents
from kitctl.plan.machine_config import build_secrets
from kitctl.plan.smoke import read_smoke

pytestmark = [pytest.mark.docker, pytest.mark.slow]
IMAGES = Path(__file__).parents[2] / "images"
PLANTED = "planted-7c1f0a9e"
SMALL = {"cpu-heavy.txt": "certifi\n", "cpu.txt": "idna\n", "gpu-heavy.txt": "", "gpu.txt": ""}


def block_of(text: str, name: str) -> str:
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"{name}=="))
    end = next((i for i in range(start + 1, len(lines)) if not lines[i].startswith(" ")), len(lines))
    return "\n".join(lines[start:end]) + "\n"


@pytest.fixture(name="small", scope="module")
def small_pin_set(tmp_path_factory: pytest.TempPathFactory) -> tuple[PinSet, Path]:
    """The real Dockerfile with two small packages out of the real lock."""
    pins = read_pins((IMAGES / "sglang" / "pins.toml").read_text(encoding="utf-8"), source="pins.toml")
    locked = (IMAGES / "sglang" / pins.default / "constraints.txt").read_text(encoding="utf-8")
    texts = SMALL | {"constraints.txt": block_of(locked, "certifi") + block_of(locked, "idna")}
    assert set(texts) == set(LOCK_FILES)
    folder = tmp_path_factory.mktemp("pins")
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return load_pin_set(pins, pins.default, texts), folder


def request_for(pin_set: PinSet) -> BuildRequest:
    """The build of the stage that both real stages share, under a name of the test's own."""
    wish = plan_build(
        pin_set,
        "common",
        base=choose_base(pin_set, None),
        platform="linux/amd64",
        recipe=recipe_texts(str(IMAGES / "sglang"), release=pin_set.release),
        revision=None,
    )
    return replace(wish, reference=f"kitctl-test-build:{pin_set.pins_hash[:12]}")


@pytest.fixture(name="built", scope="module")
def built_image(small: tuple[PinSet, Path]) -> Iterator[BuildRequest]:
    """The small image, built with secrets that hold a word to search for."""
    pin_set, folder = small
    machine = read_machine_config()
    ensure_base_image(pin_set, machine, recipe_dir=str(IMAGES / "base"))
    request = request_for(pin_set)
    secrets = build_secrets(machine, suite=pin_set.base.suite)
    planted = {
        "pipconf": f"# {PLANTED}\n" + secrets.get("pipconf", ""),
        "uvconf": f"# {PLANTED}\n" + secrets.get("uvconf", ""),
        "aptconf": f'Acquire::http::User-Agent "{PLANTED}";\n' + secrets.get("aptconf", ""),
        "netrc": f"machine {PLANTED}.example login {PLANTED} password {PLANTED}\n",
    }
    run_build(
        request,
        context_dir=str(IMAGES / "sglang"),
        pins_dir=str(folder),
        secrets=secrets | planted,
        proxies={**machine.proxies, "ftp_proxy": f"http://{PLANTED}.example:1"},
        use_cache=False,
        on_line=lambda line: None,
    )
    yield request
    subprocess.run(["docker", "image", "rm", "--force", request.reference], capture_output=True, check=True)


def test_nothing_of_the_machine_is_in_layers_labels_or_history(built: BuildRequest, tmp_path: Path) -> None:
    exported = tmp_path / "image.tar"
    subprocess.run(["docker", "save", "--output", str(exported), built.reference], check=True)
    with tarfile.open(exported) as image:
        image.extractall(tmp_path / "image", filter="data")
    words = [PLANTED.encode(), *_own_words()]
    seen = 0
    for blob in (tmp_path / "image").rglob("*"):
        if blob.is_file():
            for content in _contents(blob):
                seen += 1
                assert [word for word in words if word in content] == []
    assert seen > 1000


def _own_words() -> list[bytes]:
    """The machine's own mirrors and proxies, where it has any that the public recipe does not name."""
    machine = read_machine_config()
    recipe = (IMAGES / "sglang" / "pins.toml").read_text(encoding="utf-8")
    addresses = [machine.index_url or "", *machine.extra_index_urls, *machine.proxies.values()]
    return [word.encode() for word in addresses if word and "://" in word and word not in recipe]


def _contents(blob: Path) -> Iterator[bytes]:
    """A blob's own bytes and, of a layer (compressed or not), the name and bytes of every file."""
    raw = blob.read_bytes()
    if raw[:4] == b"\x28\xb5\x2f\xfd":
        raw = zstandard.ZstdDecompressor().stream_reader(raw).read()
        blob = blob.with_suffix(".plain")
        blob.write_bytes(raw)
    yield raw if len(raw) < 1_000_000 else raw[:512]
    if tarfile.is_tarfile(blob):
        with tarfile.open(blob) as layer:
            for member in layer:
                yield member.name.encode()
                handle = layer.extractfile(member) if member.isfile() else None
                if handle is not None:
                    yield handle.read()


def test_the_same_pins_give_the_same_files_twice(built: BuildRequest, small: tuple[PinSet, Path]) -> None:
    again = replace(built, reference=f"{built.reference}-again")
    machine = read_machine_config()
    run_build(
        again,
        context_dir=str(IMAGES / "sglang"),
        pins_dir=str(small[1]),
        secrets=build_secrets(machine, suite=small[0].base.suite),
        proxies=machine.proxies,
        use_cache=False,
        on_line=lambda line: None,
    )
    program = (IMAGES / "sglang" / "inside" / "list_contents.py").read_text(encoding="utf-8")
    try:
        before, after = (
            read_contents(run_inside(name, program, "content", as_root=True).stdout, reference=name)
            for name in (built.reference, again.reference)
        )
        assert diff_contents(before, after).files == ()
        assert len(before.files) > 5000
    finally:
        subprocess.run(["docker", "image", "rm", "--force", again.reference], capture_output=True, check=True)


def test_the_labels_say_what_was_built_and_make_a_rebuild_needless(built: BuildRequest) -> None:
    found = image_labels(built.reference)
    assert found is not None
    assert is_current(found[1], built)
    assert not is_current(found[1], replace(built, inputs_hash="other"))
    assert found[1] | built.labels == found[1]


def test_the_base_is_the_same_bits_twice(small: tuple[PinSet, Path], tmp_path: Path) -> None:
    machine = read_machine_config()
    first, second = (make_root_fs(small[0], machine, target=str(tmp_path / name)) for name in ("a", "b"))
    assert first == second


def test_what_is_planted_turns_the_smoke_test_red(built: BuildRequest) -> None:
    """A wrong version, no compiler, no kernel library: each is named; the checks go on after each."""
    program = (IMAGES / "sglang" / "inside" / "smoke.py").read_text(encoding="utf-8")
    question = {
        "stage": "gpu",
        "versions": {"idna": "0.0", "torch": "2.11.0"},
        "cuda": "13.0",
        "arch": ["12.0"],
        "libraries": {"sgl_kernel/*.so": []},
    }
    done = run_inside(built.reference, program, json.dumps(question), as_root=True)
    smoke = read_smoke(done.stdout, image_id="x", at="now", ended=None)
    said = {check.name: check.detail for check in smoke.checks if not check.ok}
    idna = next(part for part in said["versions"].split("; ") if part.startswith("idna"))
    assert idna.endswith(", pinned 0.0")
    assert "torch is absent, pinned 2.11.0" in said["versions"]
    assert said["run-user"] == "the image runs as root"
    assert said["compiler"] == "nvcc is missing"
    assert said["kernel-archs"] == "no library matches sgl_kernel/*.so"
    assert "No module named 'torch'" in said["imports"]
    assert not smoke.ok
