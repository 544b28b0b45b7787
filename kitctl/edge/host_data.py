"""Load the tables that host checks rest on from the package's data."""

from __future__ import annotations

from functools import cache

from kitctl.edge.package_data import package_text
from kitctl.plan.host_tables import HostTables, read_host_tables


@cache
def load_host_tables() -> HostTables:
    """The tables of host_findings.yaml, gpus.toml and nccl.toml."""
    return read_host_tables(
        findings=package_text("host_findings.yaml"),
        gpus=package_text("gpus.toml"),
        nccl=package_text("nccl.toml"),
    )
