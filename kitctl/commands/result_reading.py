"""Read results of whatever kind: kitctl's own, bench_serving's, acceptance, and the published reference."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

import msgspec

from kitctl.bench.bench_serving import is_bench_serving, read_bench_serving
from kitctl.bench.figures import wrong_acceptance, wrong_figure, wrong_phases
from kitctl.bench.results import RUN_SCHEMA, ResultFile, named_apart, read_results
from kitctl.edge.files import read_text
from kitctl.edge.package_data import package_text
from kitctl.errors import Exit, KitError
from kitctl.kit.json_text import decode_json

PUBLISHED = "published"
TAKEN = f"files of kitctl bench, kitctl accept or bench_serving, or '{PUBLISHED}'"
_ACCEPTANCE = "kitctl.accept/1"
_FIGURES = ("kitctl.bench.repeat/1", "kitctl.bench.point/1")


def read_all(names: Sequence[str]) -> tuple[tuple[ResultFile, ...], tuple[dict[str, Any], ...]]:
    """Every named result, of whatever kind, with labels that differ; acceptance results apart.

    Raises KitError ``bad-result`` or ``no-results`` (exit 2) for files that are none.
    """
    results: list[tuple[str, ResultFile]] = []
    acceptances: list[dict[str, Any]] = []
    for name in names:
        text = package_text("published/reference.jsonl") if name == PUBLISHED else read_text(name)
        whole = _object(text)
        if whole.get("schema") == _ACCEPTANCE:
            if wrong := wrong_acceptance(whole):
                raise _bad(name, wrong)
            acceptances.append(whole)
        elif is_bench_serving(text):
            allowed = tomllib.loads(package_text("bench_settings.toml"))["server_info"]
            results.append((name, read_bench_serving(name, text, allowed=allowed)))
        else:
            results += [(name, found) for found in _own_results(name, text, whole)]
    if not results:
        raise KitError(
            "no-results",
            "none of the files holds a throughput result",
            remedy="give at least one file of kitctl bench or bench_serving",
            exit_code=Exit.USAGE,
        )
    return named_apart(results), tuple(acceptances)


def _own_results(name: str, text: str, whole: dict[str, Any]) -> tuple[ResultFile, ...]:
    """The results of a file of kitctl bench. ``whole``: the text as one object, empty when it is several lines."""
    schema = str(whole.get("schema", ""))
    if schema.startswith("kitctl.") and schema not in (RUN_SCHEMA, *_FIGURES):
        kind = " ".join(schema.partition("/")[0].split("."))
        raise _bad(name, f"it is what {kind} wrote ({schema}), which compare does not take")
    _require_figures(name, text)
    try:
        found = read_results(name, text)
    except KitError as broken:
        raise KitError(
            broken.code,
            broken.cause,
            evidence=broken.evidence,
            remedy=f"give {TAKEN}",
            exit_code=broken.exit_code,
        ) from broken
    if wrong := next(filter(None, (wrong_phases(one.head.run_record) for one in found)), None):
        raise _bad(name, f"run_record.phases: {wrong}")
    return found


def _require_figures(name: str, text: str) -> None:
    """Raises KitError ``bad-result`` (exit 2) with line and key for a figure that nothing can have measured."""
    for number, line in enumerate(text.splitlines(), start=1):
        entry = _object(line)
        wrong = wrong_figure(entry) if entry.get("schema") in _FIGURES else None
        if wrong:
            raise _bad(name, f"line {number}: {wrong}")


def _bad(name: str, why: str) -> KitError:
    return KitError(
        "bad-result",
        f"{name} is not a result file: {why}",
        remedy=f"give {TAKEN}",
        exit_code=Exit.USAGE,
    )


def _object(text: str) -> dict[str, Any]:
    """The one object that the text is; an empty one when it is something else."""
    if not text.lstrip().startswith("{"):
        return {}
    try:
        return decode_json(text, dict)
    except msgspec.DecodeError:
        return {}
