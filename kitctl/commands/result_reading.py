"""Read a result that a verb was given, of whatever kind: every verb does so here, and refuses the same files."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kitctl.bench.bench_serving import is_bench_serving, read_bench_serving
from kitctl.bench.figures import wrong_acceptance, wrong_quality
from kitctl.bench.results import (
    POINT_SCHEMA,
    REPEAT_SCHEMA,
    RUN_SCHEMA,
    ResultFile,
    named_apart,
    read_results,
)
from kitctl.bench.scoring import SCHEMA as QUALITY_SCHEMA
from kitctl.edge.files import read_text
from kitctl.edge.package_data import package_text
from kitctl.errors import Exit, KitError
from kitctl.finding import Finding
from kitctl.kit.json_text import decode_json

PUBLISHED = "published"
TAKEN = f"files of kitctl bench, kitctl accept or bench_serving, or '{PUBLISHED}'"
_ACCEPTANCE = "kitctl.accept/1"


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
                raise _bad(name, wrong, taken=TAKEN)
            acceptances.append(whole)
        elif is_bench_serving(text):
            allowed = tomllib.loads(package_text("bench_settings.toml"))["server_info"]
            results.append((name, read_bench_serving(name, text, allowed=allowed)))
        else:
            results += [(name, found) for found in read_sweeps(name, text, taken=TAKEN)]
    if not results:
        raise KitError(
            "no-results",
            "none of the files holds a throughput result",
            remedy="give at least one file of kitctl bench or bench_serving",
            exit_code=Exit.USAGE,
        )
    return named_apart(results), tuple(acceptances)


def read_sweeps(name: str, text: str, *, taken: str) -> tuple[ResultFile, ...]:
    """The results of a file of kitctl bench, whole or as far as it came. ``taken``: what the remedy says to give.

    Raises KitError ``bad-result`` (exit 2) for another kind of file, a broken line, and a figure that nothing can have
    measured.
    """
    require_kind(name, _object(text), (RUN_SCHEMA, REPEAT_SCHEMA, POINT_SCHEMA), taken=taken)
    try:
        return read_results(name, text)
    except KitError as broken:
        raise KitError(
            broken.code,
            broken.cause,
            evidence=broken.evidence,
            remedy=f"give {taken}",
            exit_code=broken.exit_code,
        ) from broken


def read_sweep(path: str) -> ResultFile:
    """The sweep of a file of kitctl bench, without a second opinion behind it. Raises KitError as ``read_sweeps``."""
    return read_sweeps(path, read_text(path), taken="a file that kitctl bench wrote")[0]


def read_quality(path: str) -> dict[str, Any]:
    """A result of kitctl quality. Raises KitError ``bad-result`` (exit 2)."""
    taken = "a file that kitctl quality -o wrote"
    whole = _object(read_text(path))
    require_kind(path, whole, (QUALITY_SCHEMA,), taken=taken)
    is_one = whole.get("schema") == QUALITY_SCHEMA
    wrong = wrong_quality(whole) if is_one else f"it is no JSON object of {QUALITY_SCHEMA}"
    if wrong is not None:
        raise _bad(path, wrong, taken=taken)
    return whole


def require_comparable(notes: Iterable[Finding]) -> None:
    """Raises KitError ``not-comparable`` (exit 3) when one of ``notes`` tells of another load or another model."""
    odd = next((note for note in notes if note.code in ("other-load", "other-model")), None)
    if odd is not None:
        raise KitError(
            "not-comparable",
            odd.cause,
            evidence=odd.evidence,
            remedy=odd.remedy,
            exit_code=Exit.REFUSED,
        )


def require_kind(name: str, whole: Mapping[str, Any], schemas: Sequence[str], *, taken: str) -> None:
    """Raises KitError ``bad-result`` (exit 2) for what another verb of kitctl wrote."""
    schema = str(whole.get("schema", ""))
    if schema.startswith("kitctl.") and schema not in schemas:
        kind = " ".join(schema.partition("/")[0].split("."))
        raise _bad(name, f"it is what {kind} wrote ({schema}), which is not taken here", taken=taken)


def _bad(name: str, why: str, *, taken: str) -> KitError:
    return KitError(
        "bad-result",
        f"{name} is not a result file: {why}",
        remedy=f"give {taken}",
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
