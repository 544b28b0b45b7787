"""In what do two plans differ? Both as ``kitctl plan --json`` prints them, so that a run record's plan serves too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kitctl.plan.flag_names import split_flags

COMPARED = ("image", "overlays", "gpus", "environment", "mounts", "published", "model_name")
MEMORY = (
    "verdict",
    "kv_tokens",
    "max_total_tokens",
    "weight_bytes",
    "drafter_weight_bytes",
    "free_bytes",
    "sequences_at_context",
)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One field that differs; ``None`` where a side does not have it."""

    field: str
    here: Any
    there: Any


def diff_plans(here: Mapping[str, Any], there: Mapping[str, Any]) -> tuple[Difference, ...]:
    """What differs, ordered: what runs (argv by flag, the rest by name), memory, findings."""
    left, right = dict(_fields(here)), dict(_fields(there))
    names = [*left, *(name for name in right if name not in left)]
    return tuple(
        Difference(field=name, here=left.get(name), there=right.get(name))
        for name in names
        if left.get(name) != right.get(name)
    )


def _fields(plan: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, values in split_flags(tuple(plan.get("argv") or ())):
        yield f"argv.{name}", " ".join(values) or True
    for name in COMPARED:
        yield from _leaves(plan.get(name), name)
    memory = plan.get("memory") or {}
    yield from ((f"memory.{name}", memory[name]) for name in MEMORY if name in memory)
    for finding in plan.get("findings") or ():
        yield f"finding.{finding['code']}", finding["severity"]


def _leaves(tree: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            yield from _leaves(value, f"{path}.{name}")
    elif isinstance(tree, list | tuple) and any(isinstance(one, Mapping) for one in tree):
        for at, value in enumerate(tree):
            yield from _leaves(value, f"{path}[{at}]")
    else:
        yield path, list(tree) if isinstance(tree, tuple) else tree
