"""Images on this engine and the records of their builds in the state folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kitctl.edge.docker_client import engine_calls
from kitctl.edge.environment import state_dir
from kitctl.edge.files import read_text_if_there, write_atomic
from kitctl.edge.process import run_process
from kitctl.kit.image_record import ImageRecord, Layer, read_image_record, record_text
from kitctl.kit.pins import KERNEL_LIST


def image_layers(reference: str) -> tuple[Layer, ...]:
    """The layers of an image that hold something, oldest first."""
    with engine_calls() as client:
        history: list[dict[str, Any]] = client.images.get(reference).history()
    found = [Layer(size_bytes=int(step["Size"]), step=_step(step["CreatedBy"])) for step in reversed(history)]
    return tuple(layer for layer in found if layer.size_bytes)


def _step(created_by: str) -> str:
    words = created_by.replace("/bin/sh -euc", "").split()
    return " ".join(word for word in words if not word.startswith("--mount") and word != "#")[:160]


def save_image_record(record: ImageRecord) -> str:
    """Write the record; returns its path."""
    path = f"{_place(record.reference)}.json"
    write_atomic(path, record_text(record))
    return path


def save_bill(record: ImageRecord, text: str) -> None:
    """Write the image's bill of materials beside its record."""
    write_atomic(f"{_place(record.reference)}.cdx.json", text)


def load_bill(record: ImageRecord) -> str | None:
    """The image's bill of materials, ``None`` where none was written."""
    return read_text_if_there(f"{_place(record.reference)}.cdx.json")


def load_image_records() -> tuple[ImageRecord, ...]:
    """Every readable record, by reference."""
    found = sorted(_records().glob("*.json")) if _records().is_dir() else []
    files = [path for path in found if not path.name.endswith(".cdx.json")]
    read = (read_image_record(path.read_text(encoding="utf-8")) for path in files)
    return tuple(record for record in read if record is not None)


def load_image_record(reference: str) -> ImageRecord | None:
    """The record of the image called ``reference``, or ``None``."""
    return next((record for record in load_image_records() if record.reference == reference), None)


def recipe_texts(image_dir: str, *, release: str) -> dict[str, str]:
    """The files of an image's folder that a build reads, by path: Dockerfile, scripts, installer lock, and the
    list of kernels of ``release``.
    """
    root = Path(image_dir)
    found = [*root.iterdir(), *(root / "packages").rglob("*"), root / release / KERNEL_LIST]
    files = (path for path in found if path.is_file() and path.name != "pins.toml")
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in sorted(files)}


def source_revision(kit_dir: str) -> str | None:
    """The kit's commit, or ``None`` outside a repository."""
    found = run_process(("git", "-C", kit_dir, "rev-parse", "HEAD"), timeout_s=10)
    return found.stdout.strip() if found.ok else None


def _place(reference: str) -> Path:
    """Where the record of an image lies, without its suffix."""
    return _records() / reference.replace("/", "_").replace(":", "_")


def _records() -> Path:
    return Path(state_dir()) / "images"
