"""How long will a start take, and how much of the host's memory does it need?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kitctl.finding import Finding, Severity
from kitctl.plan.engine_defaults import MIB
from kitctl.plan.memory_data import LoadRule


@dataclass(frozen=True, kw_only=True)
class LoadNeed:
    """What a start is expected to take. ``expected_s`` is ``None`` when neither bytes nor an earlier start is known."""

    expected_s: float | None
    expected_source: str
    ram_bytes: int
    ram_source: str

    def json(self) -> dict[str, Any]:
        """As the plan carries it."""
        return {
            "expected_s": None if self.expected_s is None else round(self.expected_s),
            "expected_source": self.expected_source,
            "ram_bytes": self.ram_bytes,
            "ram_source": self.ram_source,
        }


def load_need(
    *,
    weight_bytes: int | None,
    largest_file_bytes: int,
    processes: int,
    last_load: Mapping[str, float] | None,
    read_bytes_per_s: float | None,
    rule: LoadRule,
) -> LoadNeed:
    """The expectation from the last start here, else from bytes and read rate.

    ``processes`` are the schedulers, one a GPU. ``last_load`` are the phases of the newest start of this stack on
    this host, in seconds; ``read_bytes_per_s`` is what was measured of the store's disk, if anything.
    """
    expected, source = _expected(weight_bytes, last_load, read_bytes_per_s, rule)
    own = (rule.main_process_mib + processes * rule.scheduler_mib) * MIB
    return LoadNeed(
        expected_s=expected,
        expected_source=source,
        ram_bytes=own + processes * largest_file_bytes,
        ram_source=f"server, {processes} schedulers, and one weight file of each at a time",
    )


def _expected(
    weight_bytes: int | None,
    last_load: Mapping[str, float] | None,
    read_bytes_per_s: float | None,
    rule: LoadRule,
) -> tuple[float | None, str]:
    if last_load:
        return sum(last_load.values()), "the last start of this stack on this host"
    if weight_bytes is None:
        return None, "unknown: the lock names no files, and this stack was not started here yet"
    rate = read_bytes_per_s or rule.read_bytes_per_s
    origin = "measured" if read_bytes_per_s else "as on a public host"
    source = f"{weight_bytes / 1e9:.0f} GB at {rate / 1e9:.1f} GB/s ({origin}), imports and graphs"
    return rule.import_s + weight_bytes / rate + rule.after_weights_s, source


def load_findings(need: LoadNeed, *, start_period_s: int) -> tuple[Finding, ...]:
    """``start-period-short`` when a health check would count failures before the load can be over."""
    if need.expected_s is None or need.expected_s <= start_period_s:
        return ()
    return (
        Finding(
            code="start-period-short",
            severity=Severity.WARN,
            cause=f"the load is expected to take {need.expected_s:.0f} s, but after {start_period_s} s the container "
            "counts as unhealthy",
            remedy=f"set serve.start_period_s to {int(need.expected_s * 2)}",
            evidence=(need.expected_source,),
            where="serve.start_period_s",
        ),
    )
