"""Give the container engine's refusal its name, when it is a known one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kitctl.edge.failure_book import failure_book
from kitctl.errors import KitError
from kitctl.watch.diagnose import UNKNOWN, diagnose


@contextmanager
def known_refusals() -> Iterator[None]:
    """Raise the block's KitError with code, cause and remedy of the known failure that its evidence tells."""
    try:
        yield
    except KitError as refused:
        found = diagnose("\n".join(refused.evidence), failure_book())
        if not found or found[0].code == UNKNOWN:
            raise
        raise KitError(
            found[0].code,
            found[0].cause,
            evidence=refused.evidence,
            remedy=found[0].remedy,
            exit_code=refused.exit_code,
        ) from refused
