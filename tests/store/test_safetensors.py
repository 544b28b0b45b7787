"""Headers of safetensors files: what fits is read, what does not is named."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_world import safetensors

from kitctl.store.safetensors import LENGTH_BYTES, HeaderFaultError, header_length, judge_header, read_index

WHOLE = safetensors({"a": b"x" * 40, "b": b"y" * 24})


def judge(data: bytes) -> dict[str, int]:
    length = header_length(data[:LENGTH_BYTES], size_bytes=len(data))
    header = judge_header(data[LENGTH_BYTES : LENGTH_BYTES + length], size_bytes=len(data))
    return dict(header.bytes_by_dtype)


def test_a_whole_file_gives_its_bytes_by_data_type() -> None:
    assert judge(WHOLE) == {"U8": 64}


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (WHOLE[:-10], "the tensors take 64 bytes, the file has 54 after its header"),
        (WHOLE[:40], "the header of 159 bytes ends behind the file's 40 bytes"),
        (b"", "0 bytes cannot hold a header"),
        (b"version https://git-lfs.github.com/spec/v1\n" * 3, "more than 100000000"),
        (b"<!DOCTYPE html><html><body>no</body></html>", "more than 100000000"),
        (bytes(100), "the header would be 0 bytes long"),
        (WHOLE + b"0123456789", "the tensors take 64 bytes, the file has 74 after its header"),
    ],
    ids=["cut", "cut-in-header", "empty", "pointer", "html", "zeros", "longer"],
)
def test_made_files_are_refused(data: bytes, fault: str) -> None:
    with pytest.raises(HeaderFaultError, match=fault):
        judge(data)


def test_zeros_inside_a_tensor_fit_the_header() -> None:
    assert judge(WHOLE[:-32] + bytes(32)) == {"U8": 64}


def header_file(tensors: dict[str, object], room: int) -> bytes:
    text = json.dumps(tensors).encode()
    return len(text).to_bytes(8, "little") + text + bytes(room)


@pytest.mark.parametrize(
    ("tensor", "fault"),
    [
        ({"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}, r"of F32 \[3\] does not take 8 bytes"),
        ({"dtype": "U8", "shape": [8], "data_offsets": [4, 12]}, "lies at 4..12, the one before ends at 0"),
        ({"dtype": "U8", "shape": [-8], "data_offsets": [0, 8]}, r"has the shape \[-8\]"),
        ({"dtype": "U8", "shape": [8]}, "the header is not a table of tensors"),
        ([1], "the header is not a table of tensors"),
    ],
)
def test_tensors_that_lie_wrongly_are_named(tensor: object, fault: str) -> None:
    with pytest.raises(HeaderFaultError, match=fault):
        judge(header_file({"a": tensor}, 8))


def test_a_data_type_of_the_future_is_measured_by_its_offsets() -> None:
    assert judge(header_file({"a": {"dtype": "F2", "shape": [99], "data_offsets": [0, 8]}}, 8)) == {"F2": 8}


@given(st.binary(max_size=400))
@settings(max_examples=300)
def test_random_bytes_end_in_a_verdict(data: bytes) -> None:
    try:
        judge(data)
    except HeaderFaultError:
        return


@given(st.binary(max_size=300))
@settings(max_examples=300)
def test_random_headers_end_in_a_verdict(text: bytes) -> None:
    try:
        judge(len(text).to_bytes(8, "little") + text)
    except HeaderFaultError:
        return


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("abdtype_", max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abdtype_", max_size=8), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "__metadata__"]), _JSON, max_size=3), st.integers(0, 64))
def test_any_json_header_ends_in_a_verdict(tensors: dict[str, object], room: int) -> None:
    try:
        judge(header_file(tensors, room))
    except HeaderFaultError:
        return


@given(st.integers(0, len(WHOLE) - 1))
def test_every_cut_is_found(length: int) -> None:
    with pytest.raises(HeaderFaultError):
        judge(WHOLE[:length])


def test_deep_nesting_ends_in_a_verdict() -> None:
    text = b'{"a":' + b"[" * 100_000
    with pytest.raises(HeaderFaultError):
        judge(len(text).to_bytes(8, "little") + text)


def test_an_index_maps_tensors_to_files() -> None:
    assert read_index(b'{"metadata":{"total_size":3},"weight_map":{"a":"x.safetensors"}}') == {
        "a": "x.safetensors"
    }


@pytest.mark.parametrize("text", [b"", b"[]", b'{"weight_map":{"a":1}}', b"\xff"])
def test_a_broken_index_is_named(text: bytes) -> None:
    with pytest.raises(HeaderFaultError, match="the index is not a table of tensors"):
        read_index(text)
