import json
from pathlib import Path
from typing import Any

import pytest

from kitctl.edge.weight_headers import read_shape, read_weights
from kitctl.kit.tensor_index import Role, read_role_patterns

DATA = Path(__file__).parents[2] / "kitctl" / "data"
PATTERNS = read_role_patterns((DATA / "tensor_roles.toml").read_text())
FC = {"dtype": "BF16", "shape": [4, 8], "data_offsets": [0, 64]}
UP = {"dtype": "BF16", "shape": [4, 4], "data_offsets": [0, 32]}


def write(path: Path, **tensors: dict[str, Any]) -> None:
    header = json.dumps({name.replace("__", "."): entry for name, entry in tensors.items()}).encode()
    size = sum(entry["data_offsets"][1] for entry in tensors.values())
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(size))


def test_weights_are_summed_over_all_files(tmp_path: Path) -> None:
    write(tmp_path / "a.safetensors", fc__weight=FC)
    write(tmp_path / "b.safetensors", layers__0__mlp__up_proj__weight=UP)
    found = read_weights(str(tmp_path), patterns=PATTERNS, layers=1)
    assert found is not None
    assert sorted((part.role, part.size_bytes) for part in found.sums) == [
        (Role.REPLICATED, 64),
        (Role.SPLIT, 32),
    ]
    assert found.source == "read from the safetensors headers"
    assert read_shape(str(tmp_path), "fc.weight") == (4, 8)
    assert read_shape(str(tmp_path), "other") is None


def test_a_file_that_the_index_names_and_is_not_there_makes_them_unknown(tmp_path: Path) -> None:
    write(tmp_path / "a.safetensors", fc__weight=FC)
    index = {"weight_map": {"fc.weight": "a.safetensors", "x": "b.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert read_weights(str(tmp_path), patterns=PATTERNS, layers=1) is None


@pytest.mark.parametrize("content", [b"", b"<!doctype html>...", (10**9).to_bytes(8, "little") + b"{}"])
def test_what_is_no_safetensors_file_makes_them_unknown(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.safetensors").write_bytes(content)
    assert read_weights(str(tmp_path), patterns=PATTERNS, layers=1) is None
    assert read_shape(str(tmp_path), "fc.weight") is None


def test_an_empty_folder_has_none(tmp_path: Path) -> None:
    assert read_weights(str(tmp_path), patterns=PATTERNS, layers=1) is None
