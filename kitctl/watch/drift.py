"""Does what runs still equal what was recorded?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kitctl.watch.redact import HIDDEN, redacted
from kitctl.watch.run_record import RunRecord


def find_drift(
    record: RunRecord | None,
    *,
    argv: tuple[str, ...],
    image_id: str,
    environment: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """One line a difference between the record and the live container; without a record that itself is one.

    Values that the record hides are not compared.
    """
    if record is None:
        return ("no run record belongs to this container",)
    runs = tuple(redacted(list(argv)))
    found = []
    if record.argv_live and runs != tuple(redacted(list(record.argv_live))):
        found.append(f"argv: recorded {' '.join(record.argv_live)}, runs {' '.join(runs)}")
    if record.image_id and image_id != record.image_id:
        found.append(f"image: recorded {record.image_id}, runs {image_id}")
    planned = tuple(redacted(list(record.plan.get("argv", ()))))
    if planned and runs != planned:
        found.append("argv: differs from the plan")
    if environment is not None:
        found += _environment_drift(record.plan.get("environment", {}), environment)
    return tuple(found)


def _environment_drift(planned: Mapping[str, str], runs: Mapping[str, str]) -> Iterator[str]:
    for name, value in planned.items():
        live = runs.get(name)
        if live != value and value != HIDDEN:
            yield f"environment {name}: planned {value}, runs {'nothing' if live is None else live}"
