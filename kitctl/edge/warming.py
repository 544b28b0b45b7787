"""Do beside the plan what every start needs later: import, connect to the engine, read the known failures."""

from __future__ import annotations

import importlib
import threading
from contextlib import suppress

from kitctl.edge.docker_client import engine_client
from kitctl.edge.failure_book import failure_book
from kitctl.errors import KitError


def warm_up(*modules: str) -> None:
    """Begin it and return at once: while probes run, the processor is free for imports (a third of a second)."""
    threading.Thread(target=_warm_up, args=modules, daemon=True).start()


def _warm_up(*modules: str) -> None:
    """An engine that does not answer is told where it is needed, not here."""
    for module in modules:
        importlib.import_module(module)
    failure_book()
    with suppress(KitError):
        engine_client()
