"""The wheels that a bundle carries: the same bytes twice, whole by their own RECORD, and for other Pythons too."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kitctl.edge.bundle_kit import plain_files, write_kit, write_readme
from kitctl.edge.wheel_pack import pack_wheel
from kitctl.errors import KitError
from kitctl.kit.own_files import read_record


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    write_kit(str(folder), pythons=("3.12",))
    write_readme(str(folder))
    return folder


def test_the_same_files_give_the_same_wheel(tmp_path: Path) -> None:
    wheels = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        wheels.append(pack_wheel("kitctl", str(tmp_path / name)))
    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    with zipfile.ZipFile(wheels[0]) as wheel:
        names = set(wheel.namelist())
        record = next(name for name in names if name.endswith(".dist-info/RECORD"))
        assert set(read_record(wheel.read(record).decode())) <= names
    assert {"kitctl/cli.py", "kitctl/_kit/models.lock", "kitctl/_kit/compose/base.yaml"} <= names
    assert not [name for name in names if "__pycache__" in name]


def test_every_wheel_is_in_the_requirements_with_its_hash(bundle: Path) -> None:
    text = (bundle / "kit" / "requirements.txt").read_text()
    for file in plain_files(str(bundle)):
        if file.path.endswith(".whl"):
            assert f"--hash=sha256:{file.sha256}" in text, file.path
    (line,) = [line for line in text.splitlines() if line.startswith("msgspec==")]
    assert line.count("--hash=") == 2


@pytest.mark.parametrize("version", [f"{sys.version_info[0]}.{sys.version_info[1]}", "3.12"])
def test_pip_finds_all_it_needs_in_the_folder_alone(bundle: Path, version: str, tmp_path: Path) -> None:
    kit = bundle / "kit"
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--find-links", str(kit),
            "--require-hashes",
            "--requirement", str(kit / "requirements.txt"), "--target", str(tmp_path / "site"), "--only-binary=:all:",
            "--python-version", version]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "kitctl" / "_kit" / "models.lock").exists()


def test_what_is_not_installed_is_told(tmp_path: Path) -> None:
    with pytest.raises(KitError) as caught:
        pack_wheel("no-such-distribution", str(tmp_path))
    assert caught.value.code == "not-installed"


def test_a_python_that_the_index_has_no_wheels_for_is_told(tmp_path: Path) -> None:
    with pytest.raises(KitError) as caught:
        write_kit(str(tmp_path), pythons=("3.6",))
    assert caught.value.code == "kit-wheels"
