"""How many bytes of which kind does a checkpoint hold? Tensors by name, summed to the roles that sharding knows.

A role says how a tensor is spread over GPUs (``data/tensor_roles.toml``); the sum keeps the layer, since pipeline
stages hold whole layers.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

_EXPERTS = ".experts."
_LAYER = re.compile(r"\blayers\.(\d+)\.")


class Role(StrEnum):
    """How a tensor is spread over the GPUs of one replica."""

    REPLICATED = "replicated"
    ATTENTION = "attention"
    KV = "kv"
    KV_B = "kv_b"
    SPLIT = "split"
    VOCAB_IN = "vocab_in"
    VOCAB_OUT = "vocab_out"
    EXPERT = "expert"
    EXPERT_SHAPE = "expert_shape"
    VISION = "vision"
    VISION_SPLIT = "vision_split"
    DROPPED = "dropped"


class RolePattern(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tensors whose name holds ``pattern`` have ``role``."""

    pattern: str
    role: Role


@dataclass(frozen=True, kw_only=True)
class RolePatterns:
    """All patterns, compiled, first match first."""

    patterns: tuple[tuple[re.Pattern[str], Role], ...]

    def role_of(self, name: str) -> Role:
        """The role of a tensor; one that no pattern knows is counted on every GPU."""
        return next((role for pattern, role in self.patterns if pattern.search(name)), Role.REPLICATED)


class Tensor(msgspec.Struct, frozen=True, kw_only=True):
    """Tensors of one shape: ``count`` of them, each ``size_bytes`` (``*`` in the name stands for their numbers)."""

    name: str
    size_bytes: int
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class WeightSum:
    """Bytes of one role in each of ``layers`` (``None``: once, outside the layers)."""

    role: Role
    layers: tuple[int, ...] | None
    each_bytes: int

    @property
    def size_bytes(self) -> int:
        """All bytes of the role in these layers."""
        return self.each_bytes * (1 if self.layers is None else len(self.layers))


@dataclass(frozen=True, kw_only=True)
class Weights:
    """A checkpoint's weights. ``source`` says whether they were read or computed from config.json."""

    sums: tuple[WeightSum, ...]
    source: str

    @property
    def size_bytes(self) -> int:
        """All bytes, dropped tensors too."""
        return sum(part.size_bytes for part in self.sums)


class _RoleFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    role: tuple[RolePattern, ...]


def read_role_patterns(text: str) -> RolePatterns:
    """The patterns of ``data/tensor_roles.toml``."""
    found = msgspec.convert(tomllib.loads(text), _RoleFile)
    return RolePatterns(patterns=tuple((re.compile(one.pattern), one.role) for one in found.role))


def tensors_of_header(header: Mapping[str, Mapping[str, object]]) -> list[Tensor]:
    """The tensors that a safetensors header (decoded JSON) names."""
    found = []
    for name, entry in header.items():
        offsets = entry.get("data_offsets")
        if isinstance(offsets, list | tuple) and len(offsets) == 2:
            found.append(Tensor(name=name, size_bytes=int(offsets[1]) - int(offsets[0])))
    return found


def sum_weights(tensors: Iterable[Tensor], *, patterns: RolePatterns, layers: int, source: str) -> Weights:
    """Tensors summed by role and layer. Layers from ``layers`` on (next-token heads) are not loaded: dropped."""
    sums: dict[tuple[Role, int | None], int] = {}
    keys: dict[str, tuple[Role, int | None]] = {}
    for tensor in tensors:
        head, _, tail = tensor.name.partition(_EXPERTS)
        alike = f"{head}{_EXPERTS}{tail.partition('.')[2]}" if tail else head
        key = keys.get(alike)
        if key is None:
            key = keys[alike] = _key_of(tensor.name, patterns, layers)
        sums[key] = sums.get(key, 0) + tensor.size_bytes * tensor.count
    return Weights(sums=tuple(_alike_layers(sums)), source=source)


def _key_of(name: str, patterns: RolePatterns, layers: int) -> tuple[Role, int | None]:
    found = _LAYER.search(name)
    layer = int(found[1]) if found else None
    role = patterns.role_of(name)
    if layer is not None and layer >= layers and role not in (Role.VISION, Role.VISION_SPLIT):
        role = Role.DROPPED
    return role, layer


def _alike_layers(sums: Mapping[tuple[Role, int | None], int]) -> Iterable[WeightSum]:
    """Layers that hold the same bytes of a role, together."""
    alike: dict[tuple[Role, int], list[int]] = {}
    for (role, layer), size in sums.items():
        if layer is None:
            yield WeightSum(role=role, layers=None, each_bytes=size)
        else:
            alike.setdefault((role, size), []).append(layer)
    for (role, size), layers in alike.items():
        yield WeightSum(role=role, layers=tuple(layers), each_bytes=size)
