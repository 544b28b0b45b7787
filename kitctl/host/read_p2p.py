"""Which pairs of GPUs may reach each other directly, as the driver says? Reads ``nvidia-smi topo -p2p r|w``.

Only reads (``r``) and writes (``w``) say whether NCCL can use P2P; ``p`` is NS on an H200 with NVLink.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kitctl.host.facts import Unknown
from kitctl.host.terminal import without_terminal_codes

_GPU = re.compile(r"GPU(\d+)")
_STATUS = {"X", "OK", "CNS", "GNS", "TNS", "NS", "DR", "U"}


@dataclass(frozen=True, kw_only=True)
class P2pTable:
    """The status of each pair, by ``gpu_indices``; ``None`` where a cell is lost."""

    gpu_indices: tuple[int, ...]
    status: tuple[tuple[str | None, ...], ...]

    def ok(self) -> tuple[tuple[bool | None, ...], ...]:
        """Whether each pair may: ``U`` (unknown to the driver) stays unknown; a GPU reaches itself."""
        known = {None: None, "U": None, "OK": True, "X": True}
        return tuple(tuple(known.get(cell, False) for cell in row) for row in self.status)


def read_p2p(text: str) -> P2pTable | Unknown:
    """The table in ``text``; :class:`Unknown` when there is none or its names do not match."""
    lines = [line for line in without_terminal_codes(text).splitlines() if _GPU.search(line)]
    if not lines or len(lines[0].split()) != len(_GPU.findall(lines[0])):
        return Unknown(reason="no table of GPUs as 'nvidia-smi topo -p2p' prints it")
    gpus = tuple(int(name) for name in _GPU.findall(lines[0]))
    rows = {int(_GPU.findall(line)[0]): line.split()[1:] for line in lines[1:]}
    if set(rows) != set(gpus) or len(lines) - 1 != len(gpus):
        return Unknown(reason="the rows and columns of the P2P table name other GPUs")
    return P2pTable(gpu_indices=gpus, status=tuple(_row(rows[gpu], at) for at, gpu in enumerate(gpus)))


def _row(cells: list[str], own: int) -> tuple[str | None, ...]:
    """One row's statuses; none of them when its ``X`` is out of place."""
    known: list[str | None] = [cell if cell in _STATUS else None for cell in cells]
    is_right = len(known) > own and known[own] == "X" and known.count("X") == 1
    return tuple(known) if is_right else tuple(None for _ in known)
