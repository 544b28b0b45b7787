"""``kitctl images list``: the pin sets of the kit, and how far each is on this engine."""

from __future__ import annotations

import argparse
from typing import Any

from kitctl.edge.docker_engine import image_id
from kitctl.edge.image_store import load_image_record
from kitctl.edge.kit_files import find_kit, image_names, load_pin_texts
from kitctl.errors import KitError
from kitctl.kit.pins import Stage, image_tag, load_pin_set, lock_of, read_pins
from kitctl.result import Context, Result


def run(args: argparse.Namespace, context: Context) -> Result:
    """One row for each image, release and stage; ``state`` is ``None`` when no engine answers."""
    del args
    kit_dir = find_kit(context.kit_dir)
    rows = [row for name in image_names(kit_dir) for row in _rows(kit_dir, name)]
    lines = [
        f"{row['image']} {row['release']:8} CUDA {row['cuda']}  {row['stage']:3}  {row['status']:9}  "
        f"{row['state'] or 'engine does not answer':12}  {row['reference']}"
        for row in rows
    ]
    return Result(data={"schema": "kitctl.images/1", "images": rows}, lines=tuple(lines))


def _rows(kit_dir: str, name: str) -> list[dict[str, Any]]:
    texts = load_pin_texts(kit_dir, name)
    pins = read_pins(texts["pins.toml"], source=f"images/{name}/pins.toml")
    rows = []
    for release, entry in pins.pin_sets.items():
        pin_set = load_pin_set(pins, release, lock_of(texts, release))
        for stage in Stage:
            reference = image_tag(pin_set, stage.value)
            rows.append(
                {
                    "image": name,
                    "name": name,
                    "release": release,
                    "cuda": entry.cuda,
                    "stage": stage.value,
                    "status": entry.status.value,
                    "why": entry.why,
                    "reference": reference,
                    "pins_hash": pin_set.pins_hash,
                    "state": _state(reference),
                }
            )
    return rows


def _state(reference: str) -> str | None:
    try:
        found = image_id(reference)
    except KitError:
        return None
    if found is None:
        return "not built"
    record = load_image_record(reference)
    if record is None or record.smoke is None or record.smoke.image_id != found:
        return "not tested"
    return "passed" if record.smoke.ok else "failed"
