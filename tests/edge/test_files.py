"""A place that cannot be written is told before the work whose result it would hold."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kitctl.edge.files import require_new_file, require_place, write_atomic
from kitctl.errors import Exit, KitError

NOBODY = 65534


@pytest.fixture
def others_folder() -> Iterator[Path]:
    """A folder that this process may read and not write, also where tests run as root."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        place = Path(folder)
        place.chmod(0o555)
        is_root = os.getuid() == 0
        if is_root:
            os.setresuid(NOBODY, NOBODY, 0)
        try:
            yield place
        finally:
            if is_root:
                os.setresuid(0, 0, 0)
            place.chmod(0o700)


def code_of(path: Path) -> str:
    with pytest.raises(KitError) as refused:
        require_place(str(path))
    assert refused.value.exit_code is Exit.USAGE
    return refused.value.code


def test_places(tmp_path: Path) -> None:
    require_place(None)
    require_place("in-the-working-folder.json")
    require_place(str(tmp_path / "new"))
    assert code_of(tmp_path / "no" / "new") == "no-such-folder"
    assert code_of(tmp_path) == "output-is-folder"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_somebody_else(others_folder: Path) -> None:
    assert code_of(others_folder / "new") == "file-unwritable"


def test_a_new_file_is_none_that_holds_something(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    require_new_file(str(tmp_path / "empty"))
    (tmp_path / "full").write_text("mine")
    with pytest.raises(KitError, match="holds something already"):
        require_new_file(str(tmp_path / "full"))


def refusal_of(path: Path) -> KitError:
    with pytest.raises(KitError) as refused:
        write_atomic(str(path), "new")
    assert (refused.value.code, refused.value.exit_code) == ("file-unwritable", Exit.USAGE)
    return refused.value


def test_what_cannot_be_replaced_is_named_and_not_its_folder(tmp_path: Path) -> None:
    """A folder stands for all that does not yield to a rename: an immutable file, a mount."""
    (tmp_path / "page.html").mkdir()
    refused = refusal_of(tmp_path / "page.html")
    assert refused.cause == (
        f"{tmp_path}/page.html cannot be written: what is there cannot be replaced: Is a directory"
    )
    assert f"lsattr {tmp_path}/page.html" in (refused.remedy or "")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_an_immutable_file_stands_and_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("old")
    if subprocess.run(["chattr", "+i", str(page)], capture_output=True, check=False).returncode != 0:
        pytest.skip("no file can be made immutable here")
    try:
        cause = refusal_of(page).cause
    finally:
        subprocess.run(["chattr", "-i", str(page)], check=True)
    assert cause == f"{page} cannot be written: what is there cannot be replaced: Operation not permitted"
    assert page.read_text() == "old"


def test_a_folder_that_takes_no_file_is_named(others_folder: Path) -> None:
    refused = refusal_of(others_folder / "new")
    assert refused.cause == f"{others_folder}/new cannot be written: Permission denied"
    assert f"make {others_folder} writable" in (refused.remedy or "")


def test_a_file_where_a_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert refusal_of(tmp_path / "file" / "below" / "new").cause.endswith(
        f"Not a directory: {tmp_path}/file/below"
    )
