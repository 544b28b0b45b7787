"""What travels, what comes back, and what a remote host may not write here."""

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from kitctl.edge.remote_pack import (
    bring_back,
    code_files,
    key_of,
    library_archive,
    option_files,
    own_tag,
    pack,
    requirements,
)


def tar_of(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as tar:
        for info, body in members:
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    return raw.getvalue()


def names_in(archive: bytes) -> set[str]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return set(tar.getnames())


def test_kitctl_runs_from_what_travels(tmp_path: Path) -> None:
    """An interpreter without site-packages, and nothing but the two archives, has every verb's modules."""
    for archive in (pack(code_files()), library_archive(requirements(frozenset()), own_tag())):
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(tmp_path, filter="data")
    env = {"PYTHONPATH": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    script = (
        "import docker, huggingface_hub, hf_xet, msgspec, requests, yaml, kitctl;"
        "import importlib.metadata as m; print(kitctl.__file__, m.version('kitctl'))"
    )
    base = str(Path(sys._base_executable).resolve())  # type: ignore[attr-defined]
    done = subprocess.run(
        [base, "-S", "-s", "-c", script], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == [f"{tmp_path}/kitctl/__init__.py", "0.1.0"], done.stderr


def test_extras_travel_only_when_asked() -> None:
    assert "optuna" not in requirements(frozenset())
    assert "optuna" in requirements(frozenset({"tune"}))
    assert not {"pytest", "mypy", "kitctl"} & set(requirements(frozenset({"tune"})))


@pytest.mark.slow
def test_another_processor_and_python_get_their_own_wheels() -> None:
    names = names_in(
        library_archive({"msgspec": requirements(frozenset())["msgspec"]}, "cpython-3.13-linux-aarch64-glibc")
    )
    assert any(name.endswith("cpython-313-aarch64-linux-gnu.so") for name in names), sorted(names)


def test_the_key_follows_names_and_contents(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("1")
    two.write_text("1")
    assert key_of({"a": one}) == key_of({"a": two})
    assert len({key_of({"a": one}), key_of({"b": one}), key_of({"a": one, "b": two}), key_of({})}) == 4


def test_a_file_and_a_folder_are_carried_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "d/e/f").write_text("x")
    assert option_files(str(tmp_path / "d"), "files/0/d") == {"files/0/d/e/f": tmp_path / "d/e/f"}
    assert option_files(str(tmp_path / "d/e/f"), "files/1/f") == {"files/1/f": tmp_path / "d/e/f"}
    assert option_files(str(tmp_path / "none"), "files/2/none") == {}


def test_only_plain_files_at_the_places_asked_for_come_back(tmp_path: Path) -> None:
    link, hard = tarfile.TarInfo("files/0/out/link"), tarfile.TarInfo("files/0/out/hard")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    hard.type, hard.linkname = tarfile.LNKTYPE, "/etc/passwd"
    evil = [
        "files/0/out/../../escaped", "/etc/kitctl-evil", "../escaped", "files/0/outside", "config/x.yaml",
        "kit/images/sglang/Dockerfile", "files/1/out",
    ]  # fmt: skip
    archive = tar_of(
        (link, b""),
        (hard, b""),
        *((tarfile.TarInfo(name), b"evil") for name in evil),
        (tarfile.TarInfo("files/0/out/sub/good"), b"good"),
    )
    target = tmp_path / "mine"
    assert bring_back(archive, {"files/0/out": str(target)}) == [str(target / "sub/good")]
    assert [str(p.relative_to(tmp_path)) for p in sorted(tmp_path.rglob("*")) if p.is_file()] == [
        "mine/sub/good"
    ]
    assert not Path("/etc/kitctl-evil").exists()


def test_a_single_file_comes_back_to_its_own_name(tmp_path: Path) -> None:
    archive = tar_of((tarfile.TarInfo("files/0/report.txt"), b"text"))
    target = tmp_path / "reports" / "host.txt"
    assert bring_back(archive, {"files/0/report.txt": str(target)}) == [str(target)]
    assert target.read_text() == "text"
