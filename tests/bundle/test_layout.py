"""Spans of the stream lie in the parts, in order, and together are the stretch that was asked for."""

from hypothesis import given
from hypothesis import strategies as st

from kitctl.bundle.layout import part_path, spans_of
from kitctl.bundle.manifest import BundleFile

SIZES = st.lists(st.integers(1, 50), min_size=1, max_size=8)


def parts_of(sizes: list[int]) -> list[BundleFile]:
    return [
        BundleFile(path=part_path(number), size_bytes=size, sha256="0" * 64)
        for number, size in enumerate(sizes)
    ]


@given(sizes=SIZES, data=st.data())
def test_spans_give_back_the_stretch(sizes: list[int], data: st.DataObject) -> None:
    total = sum(sizes)
    offset = data.draw(st.integers(0, total))
    size = data.draw(st.integers(0, total - offset))
    stream = bytes(index % 251 for index in range(total))
    held, at = {}, 0
    for part in parts_of(sizes):
        held[part.path] = stream[at : at + part.size_bytes]
        at += part.size_bytes
    spans = list(spans_of(parts_of(sizes), offset, size))
    found = b"".join(held[one.path][one.start_bytes : one.start_bytes + one.size_bytes] for one in spans)
    assert found == stream[offset : offset + size]
    assert all(one.size_bytes > 0 for one in spans)


def test_parts_sort_by_name_in_the_order_of_the_stream() -> None:
    paths = [part_path(number) for number in range(1200)]
    assert paths == sorted(paths)
    assert paths[0] == "parts/00001.part"
