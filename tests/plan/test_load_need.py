from pathlib import Path

import pytest

from kitctl.plan.load_need import LoadNeed, load_findings, load_need
from kitctl.plan.memory_data import read_memory_data

DATA = Path(__file__).parents[2] / "kitctl" / "data"
RULE = read_memory_data((DATA / "engine_memory.toml").read_text()).load
GIB = 1024**3


def need(**more: object) -> LoadNeed:
    known = {"weight_bytes": 595_000_000_000, "last_load": None, "read_bytes_per_s": None} | more
    return load_need(largest_file_bytes=10 * GIB, processes=8, rule=RULE, **known)  # type: ignore[arg-type]


def test_k26_takes_its_bytes_at_the_rate_of_a_public_host() -> None:
    found = need()
    assert found.expected_s == pytest.approx(46 + 595 / 1.1 + 20, abs=1)
    assert found.expected_source == "595 GB at 1.1 GB/s (as on a public host), imports and graphs"


def test_a_measured_disk_decides_and_the_last_start_before_it() -> None:
    assert need(read_bytes_per_s=5.95e9).expected_s == pytest.approx(166)
    found = need(last_load={"import": 40.0, "weights": 300.0}, read_bytes_per_s=1e9)
    assert (found.expected_s, found.expected_source) == (
        340.0,
        "the last start of this stack on this host",
    )


def test_nothing_known_stays_unknown() -> None:
    found = need(weight_bytes=None)
    assert found.expected_s is None
    assert load_findings(found, start_period_s=1) == ()


def test_ram_holds_the_processes_and_one_file_of_each() -> None:
    assert need().ram_bytes == (1900 + 8 * 3072) * 1024**2 + 80 * GIB


def test_a_start_period_below_the_load_is_a_warning() -> None:
    (found,) = load_findings(need(), start_period_s=300)
    assert (found.code, found.remedy) == ("start-period-short", "set serve.start_period_s to 1213")
    assert load_findings(need(), start_period_s=900) == ()
