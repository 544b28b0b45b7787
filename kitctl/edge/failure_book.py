"""Read the book of known failures that the package carries."""

from __future__ import annotations

from functools import cache

from kitctl.edge.package_data import package_text
from kitctl.kit.failures import FailureBook, read_failures


@cache
def failure_book() -> FailureBook:
    """The known failures; read once a process, since YAML and patterns take some ten milliseconds."""
    return read_failures(package_text("failures.yaml"))
