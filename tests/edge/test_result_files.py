"""Result files on a disk without room: what was there stays, and no half of a line, nor an empty file, is left."""

import subprocess
import sys
from pathlib import Path

import pytest

from kitctl.edge.files import read_text
from kitctl.edge.result_files import read_whole_lines
from kitctl.errors import KitError

LIMITED = """
import resource, sys
from kitctl.edge.result_files import append_lines
from kitctl.errors import KitError
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    append_lines(sys.argv[1], ["x" * 100_000])
except KitError as refused:
    print(refused.code)
"""


def append_with_room(path: Path, size_bytes: int) -> str:
    """What an append of 100 kB says where a file may have ``size_bytes``."""
    argv = [sys.executable, "-c", LIMITED, str(path), str(size_bytes)]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("room_bytes", [0, 5000])
def test_a_new_file_that_cannot_be_written_is_not_left(tmp_path: Path, room_bytes: int) -> None:
    assert append_with_room(tmp_path / "new.jsonl", room_bytes) == "file-unwritable"
    assert list(tmp_path.iterdir()) == []


def test_lines_that_are_there_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_text("head\n")
    assert append_with_room(path, 5000) == "file-unwritable"
    assert path.read_text() == "head\n"
    assert append_with_room(path, 1_000_000) == ""
    assert path.read_text() == "head\n" + "x" * 100_000 + "\n"


def test_a_file_of_bytes_is_told_as_everywhere(tmp_path: Path) -> None:
    (tmp_path / "bin").write_bytes(b"\xff\xfe\n")
    said = []
    for read in (read_text, read_whole_lines):
        with pytest.raises(KitError) as refused:
            read(str(tmp_path / "bin"))
        said.append(refused.value.lines())
    assert said[0] == said[1]
    assert said[0][0].startswith(f"{tmp_path}/bin cannot be read: it is not UTF-8 text (byte 0)")
