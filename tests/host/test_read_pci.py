"""ACS redirection counts only on bridges that have a GPU below them."""

from pathlib import Path

from kitctl.host.read_pci import has_redirect, read_acs_redirects

OUTPUTS = Path(__file__).parent.parent / "cases" / "tool-outputs"
LSPCI = """\
0000:00:01.1 PCI bridge: Root port
\tBus: primary=00, secondary=01, subordinate=03, sec-latency=0
\t\tACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
0000:00:02.1 PCI bridge: Root port
\tBus: primary=00, secondary=04, subordinate=04, sec-latency=0
\t\tACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
0000:01:00.0 PCI bridge: Switch port
\tBus: primary=01, secondary=02, subordinate=03, sec-latency=0
\t\tACSCtl: SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-
0000:03:00.0 3D controller: NVIDIA Corporation
"""


def test_case_file_lines() -> None:
    on, off, all_off = (OUTPUTS / "acsctl-on-off.lspci.txt").read_text().splitlines()
    assert (has_redirect(on), has_redirect(off), has_redirect(all_off)) == (True, False, False)


def test_only_bridges_above_a_gpu_count() -> None:
    assert read_acs_redirects(LSPCI, ["00000000:03:00.0"]) == ("0000:00:01.1",)
    assert read_acs_redirects(LSPCI, ["00000000:09:00.0"]) == ()
    assert read_acs_redirects(LSPCI, ["00000001:03:00.0"]) == ()


def test_without_root_it_is_unknown() -> None:
    hidden = "0000:00:01.1 PCI bridge: Root port\n\tCapabilities: <access denied>\n"
    assert read_acs_redirects(hidden, ["00000000:03:00.0"]) is None
    assert read_acs_redirects("", ["00000000:03:00.0"]) is None
