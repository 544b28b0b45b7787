"""Put the kit's own demo model where the store looks for it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from kitctl.kit.demo_model import demo_files, demo_hash


def ensure_demo_model(folder: str) -> str:
    """Write the demo model into ``folder`` unless the same bytes are there; returns its hash.

    Written beside and renamed into place, so that no reader sees half of it. Raises KitError ``store-unwritable``
    (exit 3), ``disk-full`` or ``disk-failed`` (exit 5).
    """
    files = demo_files()
    place = Path(folder)
    if not _holds(place, files):
        try:
            _write(place, files)
        except OSError as refused:
            from kitctl.edge.transfer import disk_error

            raise disk_error(refused, place) from refused
    return demo_hash(files)


def holds_demo_model(folder: str) -> bool:
    """Whether ``folder`` holds the demo model's files, byte for byte."""
    return _holds(Path(folder), demo_files())


def _holds(place: Path, files: dict[str, bytes]) -> bool:
    return all(
        (place / name).is_file() and (place / name).read_bytes() == data for name, data in files.items()
    )


def _write(place: Path, files: dict[str, bytes]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(dir=place.parent, prefix=".demo-"))
    try:
        beside.chmod(0o755)
        for name, data in files.items():
            (beside / name).write_bytes(data)
        for name in files:
            with (beside / name).open("rb") as written:
                os.fsync(written.fileno())
        if place.exists():
            shutil.rmtree(place)
        beside.rename(place)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
