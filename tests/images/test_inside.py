"""The programs that run inside images, as far as they can be tried outside; and the recipe's own lint."""

import importlib.util
import subprocess
import sys
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


@pytest.mark.parametrize("folder", ["sglang", "base"])
def test_the_dockerfiles_are_lint_free(folder: str) -> None:
    argv = ["hadolint", "--config", str(IMAGES / ".hadolint.yaml"), str(IMAGES / folder / "Dockerfile")]
    done = subprocess.run(
        [str(Path(sys.executable).parent / argv[0]), *argv[1:]], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_build_scripts_are_lint_free() -> None:
    scripts = [str(path) for path in sorted((IMAGES / "sglang").glob("*.sh"))]
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
