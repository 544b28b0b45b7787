"""Read the names and sizes of a model's tensors from the headers of its safetensors files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from kitctl.kit.tensor_index import RolePatterns, Tensor, Weights, sum_weights, tensors_of_header

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100_000_000


def read_weights(folder: str, *, patterns: RolePatterns, layers: int) -> Weights | None:
    """The weights that lie in ``folder``, ``None`` when not all files are there and whole."""
    where = Path(folder)
    files = sorted(where.glob("*.safetensors"))
    index = where / "model.safetensors.index.json"
    try:
        if index.is_file():
            named = set(msgspec.json.decode(index.read_bytes())["weight_map"].values())
            if named != {file.name for file in files}:
                return None
        tensors = [tensor for file in files for tensor in _tensors_in(file)]
    except (OSError, ValueError, KeyError, AttributeError):
        return None
    if not tensors:
        return None
    return sum_weights(tensors, patterns=patterns, layers=layers, source="read from the safetensors headers")


def _tensors_in(file: Path) -> list[Tensor]:
    return tensors_of_header(_header_of(file))


def _header_of(file: Path) -> dict[str, Any]:
    with file.open("rb") as handle:
        length = int.from_bytes(handle.read(LENGTH_BYTES), "little")
        if length > min(MAX_HEADER_BYTES, file.stat().st_size - LENGTH_BYTES):
            raise ValueError(f"{file} is no safetensors file")
        header: dict[str, Any] = msgspec.json.decode(handle.read(length))
        return header


def read_shape(folder: str, tensor: str) -> tuple[int, ...] | None:
    """The shape of one tensor in the folder's safetensors files, ``None`` when it cannot be read."""
    for file in sorted(Path(folder).glob("*.safetensors")):
        try:
            entry = _header_of(file).get(tensor)
            if entry is not None:
                return tuple(int(size) for size in entry["shape"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
    return None
