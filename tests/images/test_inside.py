"""The programs that run inside images, as far as they can be tried outside; and the recipe's own lint."""

import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

IMAGES = Path(__file__).parents[2] / "images"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("arch", "binaries", "ptx", "served"),
    [
        ("12.0", {"120"}, set(), True),
        ("12.1", {"120"}, set(), True),
        ("10.3", {"100"}, set(), True),
        ("10.0", {"103"}, set(), False),
        ("10.3", {"100a"}, set(), False),
        ("10.3", {"100f"}, set(), True),
        ("9.0", {"90a"}, set(), True),
        ("12.0", {"90"}, set(), False),
        ("12.0", {"90"}, {"90"}, True),
        ("9.0", set(), {"120"}, False),
    ],
)
def test_an_arch_is_served_by_its_own_code_its_majors_or_ptx(
    arch: str, binaries: set[str], ptx: set[str], served: bool
) -> None:
    assert load(IMAGES / "sglang" / "inside" / "smoke.py").serves(arch, binaries, ptx) is served


def test_packages_are_selected_with_their_hashes(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("a==1 \\\n    --hash=sha256:0\n    # via b\nb==2\n", encoding="utf-8")
    (tmp_path / "n.txt").write_text("a\n", encoding="utf-8")
    script = str(IMAGES / "sglang" / "select_packages.py")
    argv = [sys.executable, script, str(tmp_path / "c.txt"), str(tmp_path / "n.txt")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "a==1 \\\n    --hash=sha256:0\n")
    (tmp_path / "n.txt").write_text("zz\n", encoding="utf-8")
    lost = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (lost.returncode, lost.stderr) == (1, f"not in {tmp_path / 'c.txt'}: zz\n")


def test_equal_files_share_their_bytes_and_others_do_not(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "old").write_bytes(b"x" * 5000)
    time.sleep(0.05)
    mark = tmp_path / "mark"
    mark.touch()
    time.sleep(0.05)
    for name, content in {
        "a": b"x" * 5000,
        "b": b"x" * 5000,
        "c": b"y" * 5000,
        "small1": b"z",
        "small2": b"z",
    }.items():
        (folder / name).write_bytes(content)
    (folder / "program").write_bytes(b"x" * 5000)
    (folder / "program").chmod(0o755)
    script = str(IMAGES / "sglang" / "packages" / "link_equal_files.py")
    subprocess.run([sys.executable, script, str(folder), str(mark)], check=True)
    links = {path.name: path.stat().st_nlink for path in folder.iterdir()}
    assert links == {"old": 1, "a": 2, "b": 2, "c": 1, "small1": 1, "small2": 1, "program": 1}
    assert (folder / "b").read_bytes() == b"x" * 5000


def test_every_dropped_pattern_says_why_or_follows_one_that_does() -> None:
    lines = (IMAGES / "sglang" / "packages" / "dropped-files.txt").read_text(encoding="utf-8").splitlines()
    patterns = [line.partition("#")[0].strip() for line in lines]
    assert [pattern for pattern in patterns if not pattern or pattern.startswith(("/", "."))] == []
    assert len(patterns) == len(set(patterns))


@pytest.mark.parametrize("release", ["0.5.16", "0.5.23"])
def test_the_kernels_that_are_compiled_beforehand_hold_what_int4_and_sampling_need(release: str) -> None:
    listed = json.loads((IMAGES / "sglang" / release / "kernels.json").read_text(encoding="utf-8"))
    calls = [kernel["call"] for kernel in listed]
    assert {"_jit_gptq_marlin_repack_module", "_jit_moe_wna16_marlin_module", "gen_sampling_module"} <= set(
        calls
    )
    assert all(set(kernel) <= {"module", "call", "args", "flashinfer"} for kernel in listed)
    assert len(listed) == len({json.dumps(kernel) for kernel in listed})


@pytest.mark.parametrize("folder", ["sglang", "base"])
def test_the_dockerfiles_are_lint_free(folder: str) -> None:
    argv = ["hadolint", "--config", str(IMAGES / ".hadolint.yaml"), str(IMAGES / folder / "Dockerfile")]
    done = subprocess.run(
        [str(Path(sys.executable).parent / argv[0]), *argv[1:]], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_build_scripts_are_lint_free() -> None:
    scripts = [str(path) for path in sorted((IMAGES / "sglang").rglob("*.sh"))]
    argv = [str(Path(sys.executable).parent / "shellcheck"), *scripts]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.docker
def test_the_builder_finds_nothing_to_warn_of() -> None:
    argv = ["docker", "buildx", "build", "--check",
            "--build-context", f"pins={IMAGES / 'sglang' / '0.5.16'}", str(IMAGES / "sglang")]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "Check complete, no warnings found." in done.stdout + done.stderr


def test_no_dockerfile_fetches_a_frontend() -> None:
    for path in IMAGES.rglob("Dockerfile"):
        assert "# syntax" not in path.read_text(encoding="utf-8")
