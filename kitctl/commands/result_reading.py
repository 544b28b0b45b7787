"""Read results of whatever kind: kitctl's own, bench_serving's, acceptance, and the published reference."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

import msgspec

from kitctl.bench.bench_serving import is_bench_serving, read_bench_serving
from kitctl.bench.results import ResultFile, named_apart, read_results
from kitctl.edge.files import read_text
from kitctl.edge.package_data import package_text
from kitctl.errors import Exit, KitError
from kitctl.kit.json_text import decode_json

PUBLISHED = "published"


def read_all(names: Sequence[str]) -> tuple[tuple[ResultFile, ...], tuple[dict[str, Any], ...]]:
    """Every named result, of whatever kind, with labels that differ; acceptance results apart."""
    results: list[tuple[str, ResultFile]] = []
    acceptances: list[dict[str, Any]] = []
    for name in names:
        if name == PUBLISHED:
            results += [
                (name, found) for found in read_results(name, package_text("published/reference.jsonl"))
            ]
            continue
        text = read_text(name)
        if text.startswith("{") and (found := _acceptance(text)) is not None:
            acceptances.append(found)
        elif is_bench_serving(text):
            allowed = tomllib.loads(package_text("bench_settings.toml"))["server_info"]
            results.append((name, read_bench_serving(name, text, allowed=allowed)))
        else:
            results += [(name, found) for found in read_results(name, text)]
    if not results:
        raise KitError(
            "no-results",
            "none of the files holds a throughput result",
            remedy="give at least one file of kitctl bench or bench_serving",
            exit_code=Exit.USAGE,
        )
    return named_apart(results), tuple(acceptances)


def _acceptance(text: str) -> dict[str, Any] | None:
    """The object of ``kitctl accept -o``, ``None`` when the text is something else."""
    try:
        found: dict[str, Any] = decode_json(text, dict)
    except msgspec.DecodeError:
        return None
    return found if found.get("schema") == "kitctl.accept/1" else None
