"""Is this the header of a safetensors file of this length, and which tensors does it name?

Format: 8 bytes little-endian header length, that many bytes of JSON, then the tensors, without gaps. The
header names each tensor's bytes, so a file that was cut, padded, or is another file altogether never fits its
own header. Bytes that were flipped or zeroed inside a tensor do fit: only a hash finds those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

import msgspec

MAX_HEADER_BYTES = 100_000_000
"""The limit of the safetensors library (0.8, ``MAX_HEADER_SIZE``): a longer header is a wrong file."""
LENGTH_BYTES = 8
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "F64": 64, "I64": 64,
    "U64": 64, "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip


class HeaderFaultError(Exception):
    """A header that does not fit its file; the text says in which way."""


class _Tensor(msgspec.Struct, frozen=True):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Header:
    """The tensors of one file: names, and bytes by data type."""

    tensors: frozenset[str]
    bytes_by_dtype: Mapping[str, int]


def header_length(first_bytes: bytes, *, size_bytes: int) -> int:
    """How many header bytes follow the first eight. Raises HeaderFaultError when they cannot be a header."""
    if size_bytes < LENGTH_BYTES or len(first_bytes) < LENGTH_BYTES:
        raise HeaderFaultError(f"{size_bytes} bytes cannot hold a header")
    length = int.from_bytes(first_bytes[:LENGTH_BYTES], "little")
    if length > MAX_HEADER_BYTES:
        raise HeaderFaultError(f"the header would be {length} bytes long, more than {MAX_HEADER_BYTES}")
    if length > size_bytes - LENGTH_BYTES:
        raise HeaderFaultError(f"the header of {length} bytes ends behind the file's {size_bytes} bytes")
    if length < len("{}"):
        raise HeaderFaultError(f"the header would be {length} bytes long")
    return length


def judge_header(header: bytes, *, size_bytes: int) -> Header:
    """The tensors of ``header`` in a file of ``size_bytes``. Raises HeaderFaultError when they do not fit."""
    try:
        raw = msgspec.json.decode(header, type=dict[str, msgspec.Raw])
        raw.pop("__metadata__", None)
        tensors = {name: msgspec.json.decode(one, type=_Tensor) for name, one in raw.items()}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as broken:
        raise HeaderFaultError(f"the header is not a table of tensors: {broken}") from broken
    _check_offsets(tensors, room=size_bytes - LENGTH_BYTES - len(header))
    return Header(tensors=frozenset(tensors), bytes_by_dtype=_sum_by_dtype(tensors.values()))


def _check_offsets(tensors: Mapping[str, _Tensor], *, room: int) -> None:
    end = 0
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1].data_offsets):
        begin, stop = tensor.data_offsets
        if begin != end or stop < begin:
            raise HeaderFaultError(f"tensor {name!r} lies at {begin}..{stop}, the one before ends at {end}")
        _check_shape(name, tensor)
        end = stop
    if end != room:
        raise HeaderFaultError(f"the tensors take {end} bytes, the file has {room} after its header")


def _check_shape(name: str, tensor: _Tensor) -> None:
    bits = _BITS.get(tensor.dtype)
    begin, stop = tensor.data_offsets
    if any(size < 0 for size in tensor.shape):
        raise HeaderFaultError(f"tensor {name!r} has the shape {list(tensor.shape)}")
    if bits is not None and prod(tensor.shape) * bits != (stop - begin) * 8:
        raise HeaderFaultError(
            f"tensor {name!r} of {tensor.dtype} {list(tensor.shape)} does not take {stop - begin} bytes"
        )


def _sum_by_dtype(tensors: Iterable[_Tensor]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for tensor in tensors:
        begin, stop = tensor.data_offsets
        sums[tensor.dtype] = sums.get(tensor.dtype, 0) + stop - begin
    return dict(sorted(sums.items()))


def read_index(text: bytes) -> Mapping[str, str]:
    """Tensor name to file name, of a ``*.safetensors.index.json``. Raises HeaderFaultError."""
    try:
        return msgspec.json.decode(text, type=_Index).weight_map
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as broken:
        raise HeaderFaultError(f"the index is not a table of tensors: {broken}") from broken


class _Index(msgspec.Struct, frozen=True):
    weight_map: dict[str, str]
