"""kitctl setup --stop: end the engine that setup itself started, and no other."""

from __future__ import annotations

from typing import Any

from kitctl.edge.setup_stop import find_own_engine, stop_engine
from kitctl.errors import Exit, KitError
from kitctl.host.setup_recipe import Recipe
from kitctl.host.setup_report import STOP_SCHEMA
from kitctl.result import Result


def stop_own_engine(recipe: Recipe, *, force: bool) -> Result:
    """End it, with the containers that run in it only by ``force``.

    Raises KitError ``containers-run`` (exit 3) without it, ``engine-did-not-stop`` (exit 10).
    """
    engine = find_own_engine(recipe)
    if engine is None:
        return Result(
            data={"schema": STOP_SCHEMA, "stopped": None}, lines=("no engine that setup started runs here",)
        )
    if engine.containers and not force:
        raise KitError(
            "containers-run",
            f"{len(engine.containers)} containers run in the engine",
            evidence=engine.containers,
            remedy="kitctl down STACK, or end them with the engine: kitctl setup --stop --yes",
            exit_code=Exit.REFUSED,
        )
    left = stop_engine(engine, recipe)
    data: dict[str, Any] = {"schema": STOP_SCHEMA, "stopped": engine.pid, "unmounted": list(left)}
    return Result(data=data, lines=(f"the engine (process {engine.pid}) has ended",))
