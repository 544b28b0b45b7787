"""A place that cannot be written is told before the work whose result it would hold."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kitctl.edge.files import require_new_file, require_place
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
