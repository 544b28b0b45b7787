"""Tables of 'nvidia-smi topo -p2p' are read in every layout; a damaged one is unknown."""

from pathlib import Path

import pytest

from kitctl.host.facts import Unknown
from kitctl.host.read_p2p import P2pTable, read_p2p

OUTPUTS = Path(__file__).parent.parent / "cases" / "tool-outputs"


@pytest.mark.parametrize(
    ("name", "status", "ok"),
    [
        ("h200-2x.p2p-r.txt", "OK", True),
        ("h200-2x.p2p-p.txt", "NS", False),
        ("rtx5090-2x.p2p-rw.txt", "GNS", False),
        ("rtx3090-2x.p2p-rw.txt", "NS", False),
    ],
)
def test_case_file(name: str, status: str, ok: bool) -> None:
    table = read_p2p((OUTPUTS / name).read_text())
    assert table == P2pTable(gpu_indices=(0, 1), status=(("X", status), (status, "X")))
    assert table.ok() == ((True, ok), (ok, True))


def test_the_driver_may_not_know() -> None:
    table = read_p2p(" \tGPU0\tGPU1\t\n GPU0\tX\tU\t\n GPU1\tU\tX\t\n")
    assert isinstance(table, P2pTable)
    assert table.ok() == ((True, None), (None, True))


def test_a_row_whose_x_is_out_of_place_is_unknown() -> None:
    table = read_p2p(" \tGPU0\tGPU1\t\n GPU0\tOK\tX\t\n GPU1\tOK\tX\t\n")
    assert isinstance(table, P2pTable)
    assert table.status == ((None, None), ("OK", "X"))


@pytest.mark.parametrize("text", ["", "GPU0 X OK\n", " \tGPU0\tGPU1\n GPU0\tX\tOK\n"])
def test_a_cut_table_is_unknown(text: str) -> None:
    assert isinstance(read_p2p(text), Unknown)
