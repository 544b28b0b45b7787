"""Does what runs still equal what was recorded?"""

from __future__ import annotations

from kitctl.watch.run_record import RunRecord


def find_drift(record: RunRecord | None, *, argv: tuple[str, ...], image_id: str) -> tuple[str, ...]:
    """One line a difference between the record and the live container; without a record that itself is one."""
    if record is None:
        return ("no run record belongs to this container",)
    found = []
    if record.argv_live and argv != record.argv_live:
        found.append(f"argv: recorded {' '.join(record.argv_live)}, runs {' '.join(argv)}")
    if record.image_id and image_id != record.image_id:
        found.append(f"image: recorded {record.image_id}, runs {image_id}")
    planned = tuple(record.plan.get("argv", ()))
    if planned and argv != planned:
        found.append("argv: differs from the plan")
    return tuple(found)
