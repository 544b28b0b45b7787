"""How are the GPUs of this host linked? Reads what ``nvidia-smi topo -m`` prints, in every layout seen.

The table is made for people and has no machine form. What makes it readable for sure: the matrix is
symmetric and names each row and column, so that every link stands there twice. A cell is believed when its
row is whole, or when it stands left of the row's own ``X``; where the two statements of one link disagree,
or neither can be believed, the link is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kitctl.host.affinity import Affinity, numa_node_count, read_affinity
from kitctl.host.facts import Topology, Unknown
from kitctl.host.terminal import without_terminal_codes

_GPU = re.compile(r"GPU(\d+)")
_COLUMN = re.compile(r"GPU\d+|NIC\d+|mlx\d+_(?:bond_)?\d+|[^\s]+")
_TAIL_COLUMNS = re.compile(r"CPU Aff|NUMA Aff|GPU NUMA", re.IGNORECASE)
_NAME = r"(?:NV\d+|X|PIX|PXB|PSB|PHB|NODE|SYS|SOC)"
_ROW = re.compile(rf"\s*(GPU\d+)(?=\s|{_NAME}|$)")
_OTHER_ROW = re.compile(rf"\s*(?!{_NAME}\s)[A-Za-z][\w.-]*\s+{_NAME}(?![A-Za-z])")
_LINK = re.compile(rf"\s*({_NAME})(?=\s|$|{_NAME}|N|(?<!\d)\d)")
_END = re.compile(r"\s*(?:(?:NIC )?Legend|GPU\d+\s+GPU\d+)")
_OLD_NAMES = {"SOC": "SYS", "PSB": "PIX"}  # drivers before 384 printed these


@dataclass(frozen=True, kw_only=True)
class _Header:
    gpus: tuple[int, ...]
    nics: int
    stray: str | None
    has_affinity: bool
    text: str


@dataclass(frozen=True, kw_only=True)
class _Row:
    """The cells of one GPU's row that can be believed, by the other GPU's index."""

    gpu: int
    cells: dict[int, str]
    affinity: Affinity
    is_displaced: bool


def read_topology(text: str) -> Topology | Unknown:
    """The links in ``text``; :class:`Unknown` when it holds no such table. Single links may be ``None``."""
    lines = without_terminal_codes(text).splitlines()
    found = _find_header(lines)
    if isinstance(found, Unknown):
        return found
    header, body = found
    rows = [_read_row(header, gpu, rest) for gpu, rest in _row_texts(body)]
    damage = _damage(header, rows)
    return Unknown(reason=damage) if damage else _assemble(header, rows)


def _damage(header: _Header, rows: list[_Row]) -> str | None:
    """Why the names of rows and columns cannot be trusted, if so."""
    labels = [row.gpu for row in rows]
    if header.stray is not None:
        return f"the column {header.stray!r} stands among the GPU columns"
    if len(set(header.gpus)) != len(header.gpus):
        return f"the table names a GPU column twice: {_names(header.gpus)}"
    if len(set(labels)) != len(labels):
        return f"the table names a GPU row twice: {_names(labels)}"
    if set(labels) - set(header.gpus) and set(header.gpus) - set(labels):
        return f"the rows ({_names(labels)}) and columns ({_names(header.gpus)}) name other GPUs"
    if sum(row.is_displaced for row in rows) > 1:
        return "the X marks do not stand where a row meets its own column"
    return None


def _find_header(lines: list[str]) -> tuple[_Header, list[str]] | Unknown:
    """The header and the lines after it. A header wrapped by a terminal goes on until the first row."""
    for at, line in enumerate(lines):
        if not _GPU.search(line):
            continue
        if _is_row(line):
            return Unknown(reason="the table has no header line that names its columns")
        if not line.lstrip().startswith("GPU"):
            continue
        first_row = next((n for n in range(at, len(lines)) if _is_row(lines[n])), None)
        if first_row is None:
            return Unknown(reason="the table has a header but no GPU rows")
        return _read_header("".join(lines[at:first_row])), lines[first_row:]
    return Unknown(reason="no table of GPUs as 'nvidia-smi topo -m' prints it")


def _is_row(line: str) -> bool:
    named = _ROW.match(line)
    return named is not None and _LINK.match(line, named.end()) is not None


def _read_header(text: str) -> _Header:
    tail = _TAIL_COLUMNS.search(text)
    names = _COLUMN.findall(text[: tail.start()] if tail else text)
    gpus = tuple(int(name[3:]) for name in names if _GPU.fullmatch(name))
    last = max((at for at, name in enumerate(names) if _GPU.fullmatch(name)), default=0)
    stray = next((name for name in names[:last] if not _GPU.fullmatch(name)), None)
    nics = len(names) - len(gpus)
    return _Header(gpus=gpus, nics=nics, stray=stray, has_affinity=tail is not None, text=text)


def _row_texts(lines: list[str]) -> list[tuple[int, str]]:
    """Each GPU row's text after its label, with the parts that a terminal wrapped onto the next lines."""
    rows: list[tuple[int, str]] = []
    is_open = False
    for line in lines:
        if _END.match(line):
            break
        named = _ROW.match(line)
        if named:
            rows.append((int(named.group(1)[3:]), line[named.end() :]))
        elif is_open and line.strip() and not _OTHER_ROW.match(line):
            gpu, begun = rows[-1]
            rows[-1] = (gpu, begun + line)
        is_open = bool(named) or (is_open and bool(line.strip()) and not _OTHER_ROW.match(line))
    return rows


def _read_row(header: _Header, gpu: int, text: str) -> _Row:
    links, end = _leading_links(text)
    tail = text[end:]
    marks = [at for at, link in enumerate(links[: len(header.gpus)]) if link == "X"]
    own = header.gpus.index(gpu) if gpu in header.gpus else None
    believed = _believed_count(header, links, own=own, marks=marks, is_cut=not tail.strip())
    return _Row(
        gpu=gpu,
        cells=dict(zip(header.gpus, links[:believed], strict=False)),
        affinity=read_affinity(tail, header.text),
        is_displaced=bool(marks) and marks != [own],
    )


def _leading_links(text: str) -> tuple[list[str], int]:
    """The link names at the front of a row, also when run together, and where they end."""
    links: list[str] = []
    end = 0
    while found := _LINK.match(text, end):
        name = found.group(1)
        links.append(_OLD_NAMES.get(name, name))
        end = found.end()
    return links, end


def _believed_count(
    header: _Header, links: list[str], *, own: int | None, marks: list[int], is_cut: bool
) -> int:
    """How many leading cells of a row stand under their own columns.

    A row whose ``X`` is not in its own column has lost or gained a cell before it: none. A row with as many
    cells as the header names columns: all. With fewer or more, a cell was lost or gained after the ``X``, and
    only those up to it are sure. A row cut off before its ``X`` is sure as far as it goes.
    """
    is_whole = len(links) == len(header.gpus) + header.nics
    if marks == ([] if own is None else [own]) and is_whole:
        return len(header.gpus)
    if own is not None and marks == [own]:
        return own + 1
    return len(links) if own is not None and not marks and is_cut and len(links) <= own else 0


def _assemble(header: _Header, rows: list[_Row]) -> Topology:
    by_gpu = {row.gpu: row for row in rows}
    gpus = header.gpus + tuple(row.gpu for row in rows if row.gpu not in header.gpus)
    nothing = Affinity()
    affinities = [by_gpu[gpu].affinity if gpu in by_gpu else nothing for gpu in gpus]
    links = tuple(tuple(_settle(by_gpu, a, b) for b in gpus) for a in gpus)
    return Topology(
        gpu_indices=gpus,
        links=links,
        numa_nodes=tuple(affinity.numa_node for affinity in affinities),
        cpu_affinity=tuple(affinity.cpus for affinity in affinities),
        numa_node_count=numa_node_count(affinities, links, has_columns=header.has_affinity),
        nic_count=header.nics,
    )


def _settle(rows: dict[int, _Row], a: int, b: int) -> str | None:
    """The link of ``a`` and ``b`` by the two cells that state it; ``None`` when they disagree or are lost."""
    if a == b:
        return "X"
    said = {
        rows[one].cells[other] for one, other in ((a, b), (b, a)) if one in rows and other in rows[one].cells
    }
    return said.pop() if len(said) == 1 else None


def _names(gpus: Sequence[int]) -> str:
    return " ".join(f"GPU{gpu}" for gpu in gpus)
