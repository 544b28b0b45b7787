"""An answer's end is seen however its bytes are cut."""

import pytest

from kitctl.bench.http_frame import Frame

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
SIZED = b"HTTP/1.1 500 X\r\nconnection: close\r\nContent-Length: 4\r\n\r\noops"


@pytest.mark.parametrize(
    "raw", [CHUNKED, SIZED, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"]
)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_complete_only_with_the_last_byte(raw: bytes, size: int) -> None:
    frame = Frame()
    pieces = [raw[at : at + size] for at in range(0, len(raw), size)]
    assert [frame.feed(piece) for piece in pieces] == [False] * (len(pieces) - 1) + [True]


def test_close_is_announced() -> None:
    frame = Frame()
    assert frame.feed(SIZED)
    assert frame.closes
    assert not frame.ends_with_connection


def test_answer_without_length_ends_with_the_connection() -> None:
    frame = Frame()
    assert not frame.feed(b"HTTP/1.0 200 OK\r\n\r\nwhatever")
    assert frame.ends_with_connection
    assert frame.closes


def test_zero_line_inside_the_text_is_no_end() -> None:
    frame = Frame()
    frame.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert not frame.feed(b'16\r\ndata: {"text":"0\\n"}\n\n\r\n')
