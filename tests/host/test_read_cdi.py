"""The list of CDI devices is read whatever stands around it."""

from pathlib import Path

import pytest

from kitctl.host.read_cdi import read_cdi_list, read_toolkit_version

OUTPUTS = Path(__file__).parent.parent / "cases" / "tool-outputs"


@pytest.mark.parametrize("name", ["ctk-1.17.8.cdi-list.txt", "ctk-1.19.0.cdi-list-notty.txt"])
def test_case_file(name: str) -> None:
    devices = read_cdi_list((OUTPUTS / name).read_text())
    assert devices is not None
    assert devices[:2] == ("nvidia.com/gpu=0", "nvidia.com/gpu=1")
    assert (len(devices), devices[-1]) == (9, "nvidia.com/gpu=all")


def test_a_cut_list_is_unknown_and_an_empty_one_is_empty() -> None:
    text = (OUTPUTS / "ctk-1.17.8.cdi-list.txt").read_text()
    assert read_cdi_list("\n".join(text.splitlines()[:4])) is None
    assert read_cdi_list('time="x" level=info msg="Found 0 CDI devices"') == ()


def test_toolkit_version() -> None:
    assert read_toolkit_version("NVIDIA Container Toolkit CLI version 1.17.8\ncommit: x\n") == "1.17.8"
