"""Every layout of 'nvidia-smi topo -m' is read right, and a damaged text never gives a wrong verdict."""

import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitctl.host.facts import Topology, Unknown
from kitctl.host.read_topology import read_topology
from kitctl.host.topology import LinkClass, classify, islands, propose_gpu_sets

HOSTS = Path(__file__).parent.parent / "cases" / "hosts"
CASES = sorted(path.name.removesuffix(".topo.txt") for path in HOSTS.glob("*.topo.txt"))


def text_of(case: str) -> str:
    return (HOSTS / f"{case}.topo.txt").read_text()


def topology_of(text: str) -> Topology:
    topology = read_topology(text)
    assert isinstance(topology, Topology), topology
    return topology


@pytest.mark.parametrize("case", CASES)
def test_case_file_is_judged_as_expected(case: str) -> None:
    expected = json.loads((HOSTS / f"{case}.json").read_text())
    topology = topology_of(text_of(case))
    verdict = classify(topology, topology.gpu_indices)
    assert {
        "gpu_count": len(topology.gpu_indices),
        "links": verdict.links,
        "numa_nodes": topology.numa_node_count,
        "nics": topology.nic_count,
    } == {
        "gpu_count": expected["gpu_count"],
        "links": expected["links"],
        "numa_nodes": expected["numa_nodes"],
        "nics": expected.get("nics", 0),
    }
    assert all(cell is not None for row in topology.links for cell in row)


def test_affinity_columns_are_read_where_they_stand() -> None:
    topology = topology_of(text_of("08-rtx3090-8x-2socket-node"))
    assert topology.numa_nodes == (0, 0, 0, 0, 1, 1, 1, 1)
    assert topology.cpu_affinity[4] == "64-127,192-255"


def test_a_range_of_numa_nodes_names_no_single_node() -> None:
    topology = topology_of(text_of("14-v100-8x-vm-phb"))
    assert topology.numa_nodes == (None,) * 8
    assert topology.numa_node_count == 2


def test_one_gpu() -> None:
    topology = topology_of("\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-15\t0\t\tN/A\n")
    verdict = classify(topology, (0,))
    assert verdict.links is LinkClass.SINGLE
    assert verdict.reason == "GPU0 alone: there is no link to choose for"


def test_a_line_on_nics_may_stand_above_the_header() -> None:
    text = "76 NICs found in the topology, only displaying 56 in the matrix.\n" + text_of(
        "23-h200-2x-measured-ansi"
    )
    assert classify(topology_of(text), (0, 1)).links is LinkClass.NVLINK_FULL


def test_lines_wrapped_by_a_terminal_are_joined() -> None:
    lines = text_of("16-a100sxm-8x-nvswitch").splitlines()
    wrapped = "\n".join(line[at : at + 40] for line in lines for at in range(0, max(len(line), 1), 40))
    topology = topology_of(wrapped)
    assert classify(topology, topology.gpu_indices).links is LinkClass.NVLINK_FULL
    assert topology.gpu_indices == tuple(range(8))


def test_columns_cut_at_the_right_leave_what_stands_left_of_the_cut() -> None:
    cut = "\n".join(line[:44] for line in text_of("04-rtxpro6000-8x-2socket-direct").splitlines())
    topology = topology_of(cut)
    assert topology.gpu_indices == tuple(range(8))
    assert classify(topology, (0, 1, 2, 3)).links is LinkClass.PCIE
    assert classify(topology, (3, 7)).links is LinkClass.PCIE
    assert classify(topology, (6, 7)).links is None


def test_rows_cut_at_the_end_leave_pairs_of_lost_rows_unknown() -> None:
    lines = text_of("22-nv18-8x-no-nic").splitlines()[:5]
    topology = topology_of("\n".join(lines))
    assert classify(topology, (0, 1, 2, 3)).links is LinkClass.NVLINK_FULL
    assert classify(topology, (3, 7)).links is LinkClass.NVLINK_FULL
    assert classify(topology, range(8)).reason == "the link between GPU4 and GPU5 is unreadable"


GB200 = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV18\tNV18\tNV18\tNODE\t0-71\t0,2-17\t\t2
GPU1\tNV18\t X \tNV18\tNV18\tNODE\t0-71\t0,2-17\t\t10
GPU2\tNV18\tNV18\t X \tNV18\tSYS\t72-143\t1,18-33\t\t18
GPU3\tNV18\tNV18\tNV18\t X \tSYS\t72-143\t1,18-33\t\t26
NIC0\tNODE\tNODE\tSYS\tSYS\t X
"""


def test_numa_nodes_of_gpu_memory_are_no_sockets() -> None:
    topology = topology_of(GB200)
    assert topology.numa_node_count == 2
    assert topology.cpu_affinity[2] == "72-143"


@pytest.mark.parametrize(
    "dress",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\n".join(f"    {line}" for line in text.splitlines()),
        lambda text: text.replace("\tGPU0\tGPU1", "\t^[[4mGPU0\tGPU1", 1),
        lambda text: text.replace("\tGPU0\tGPU1", "\t[4mGPU0\tGPU1", 1).replace("ID\n", "ID[0m\n", 1),
        lambda text: f"$ nvidia-smi topo -m\n{text}",
        lambda text: f"{text}\n\tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n",
        lambda text: text.replace("\n", "\n\n"),
        lambda text: text.expandtabs(8),
        lambda text: text.replace("\t\t", " ").replace("\t", " "),
        lambda text: "GPU 0: NVIDIA H200 (UUID: GPU-0)\n" + text,
        lambda text: text.replace("NV18\tNV18", "NV18NV18"),
        lambda text: text.replace("GPU1\tGPU2", "GPU1GPU2", 1),
        lambda text: "\n".join(line for line in text.splitlines() if not line.startswith("NIC")),
    ],
)
def test_the_same_table_in_other_dress_is_the_same(dress: Callable[[str], str]) -> None:
    plain, dressed = topology_of(GB200), topology_of(dress(GB200))
    assert dressed.links == plain.links
    assert dressed.numa_node_count == plain.numa_node_count


def test_words_behind_a_row_are_passed_over() -> None:
    text = text_of("01-rtxpro6000-8x-2socket-broadcom")
    told = "\n".join(f"{line}   # NUMA 0" if line.startswith("GPU") else line for line in text.splitlines())
    assert topology_of(told) == topology_of(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no table of GPUs as 'nvidia-smi topo -m' prints it"),
        ("No devices were found\n", "no table of GPUs as 'nvidia-smi topo -m' prints it"),
        ("GPU0\t X \tPIX\nGPU1\tPIX\t X \n", "the table has no header line that names its columns"),
        ("\tGPU0\tGPU1\n", "the table has a header but no GPU rows"),
        ("\tGPU0\tGPU0\nGPU0\t X \tPIX\n", "the table names a GPU column twice: GPU0 GPU0"),
        ("\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU0\tPIX\t X\n", "the table names a GPU row twice: GPU0 GPU0"),
        (
            "\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU2\tPIX\t X\n",
            "the rows (GPU0 GPU2) and columns (GPU0 GPU1) name other GPUs",
        ),
        (
            "\tGPU0\tGP1\tGPU2\nGPU0\t X \tPIX\tSYS\nGPU2\tSYS\tPIX\t X\n",
            "the column 'GP1' stands among the GPU columns",
        ),
        (
            "\tGPU1\tGPU0\nGPU0\t X \tPIX\nGPU1\tPIX\t X\n",
            "the X marks do not stand where a row meets its own column",
        ),
    ],
)
def test_damage_to_the_names_gives_unknown_with_a_reason(text: str, reason: str) -> None:
    assert read_topology(text) == Unknown(reason=reason)


def test_statements_that_disagree_leave_the_link_unknown() -> None:
    topology = topology_of("\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tSYS\t X\n")
    assert classify(topology, (0, 1)).links is None


LINKS = ["NV1", "NV2", "NV12", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS"]


@st.composite
def matrices(draw: st.DrawFn) -> list[list[str]]:
    count = draw(st.integers(2, 6))
    pool = draw(st.sampled_from([LINKS, LINKS[:4], LINKS[4:], ["NV18", "SYS"]]))
    matrix = [["X"] * count for _ in range(count)]
    for a, b in combinations(range(count), 2):
        matrix[a][b] = matrix[b][a] = draw(st.sampled_from(pool))
    return matrix


def printed(matrix: list[list[str]], order: list[int], *, gap: str, nics: int, affinity: bool) -> str:
    head = [f"GPU{gpu}" for gpu in order] + [f"NIC{nic}" for nic in range(nics)]
    tail = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"] if affinity else []
    lines = [gap + gap.join(head + tail)]
    for gpu in order:
        cells = [matrix[gpu][other] for other in order] + ["SYS"] * nics
        values = ["0-31", "0", "", "N/A"] if affinity else []
        lines.append(gap.join([f"GPU{gpu}", *cells, *values]))
    return "\n".join(lines) + "\n"


@given(matrices(), st.data())
@settings(deadline=None, max_examples=150)
def test_a_permutation_of_gpus_never_changes_a_verdict(matrix: list[list[str]], data: st.DataObject) -> None:
    gpus = list(range(len(matrix)))
    gap = data.draw(st.sampled_from(["\t", "  ", "      "]))
    nics, affinity = data.draw(st.integers(0, 3)), data.draw(st.booleans())
    plain = topology_of(printed(matrix, gpus, gap=gap, nics=nics, affinity=affinity))
    order = data.draw(st.permutations(gpus))
    mixed = topology_of(printed(matrix, order, gap=gap, nics=nics, affinity=affinity))
    chosen = data.draw(st.sets(st.sampled_from(gpus), min_size=1))
    assert classify(mixed, chosen) == classify(plain, chosen)
    assert islands(mixed) == islands(plain)
    assert propose_gpu_sets(mixed) == propose_gpu_sets(plain)
    assert mixed.numa_node_count == plain.numa_node_count


def damaged(text: str, data: st.DataObject) -> str:
    """One wound: a character or piece lost, doubled or changed, a line lost, or the end cut off."""
    at = data.draw(st.integers(0, len(text) - 1))
    end = min(len(text), at + data.draw(st.integers(1, 12)))
    kind = data.draw(st.sampled_from(["lose", "double", "change", "cut", "line", "word"]))
    if kind == "lose":
        return text[:at] + text[end:]
    if kind == "double":
        return text[:end] + text[at:end] + text[end:]
    if kind == "change":
        return text[:at] + data.draw(st.sampled_from("XNV18PSIZ \t\n")) + text[at + 1 :]
    if kind == "cut":
        return text[:at]
    if kind == "line":
        lines = text.splitlines(keepends=True)
        lost = data.draw(st.integers(0, len(lines) - 1))
        return "".join(lines[:lost] + lines[lost + 1 :])
    start = max(text.rfind("\t", 0, at), text.rfind(" ", 0, at), 0)
    stop = min((n for n in (text.find("\t", at), text.find("\n", at)) if n >= 0), default=len(text))
    return text[:start] + text[stop:]


def verdicts_are_right_or_unknown(text: str, whole: Topology) -> None:
    topology = read_topology(text)
    if isinstance(topology, Unknown):
        return
    for a, b in combinations(topology.gpu_indices, 2):
        said = classify(topology, (a, b)).links
        truth = classify(whole, (a, b)).links
        assert said is None or said == truth, (a, b)
    gpus = topology.gpu_indices
    said = classify(topology, gpus).links
    assert said is None or said == classify(whole, gpus).links


@given(matrices(), st.data())
@settings(deadline=None, max_examples=400)
def test_a_damaged_text_gives_unknown_and_never_a_wrong_verdict(
    matrix: list[list[str]], data: st.DataObject
) -> None:
    gap = data.draw(st.sampled_from(["\t", "   "]))
    nics, affinity = data.draw(st.integers(0, 2)), data.draw(st.booleans())
    text = printed(matrix, list(range(len(matrix))), gap=gap, nics=nics, affinity=affinity)
    verdicts_are_right_or_unknown(damaged(text, data), topology_of(text))


@given(st.sampled_from(CASES), st.data())
@settings(deadline=None, max_examples=400)
def test_a_damaged_case_file_gives_unknown_and_never_a_wrong_verdict(case: str, data: st.DataObject) -> None:
    text = text_of(case)
    table = text[: text.find("Legend")] if "Legend" in text else text
    verdicts_are_right_or_unknown(damaged(table, data), topology_of(text))
