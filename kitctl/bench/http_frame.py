"""Where does an HTTP/1.1 answer end? Just enough framing to know when a connection is free again."""

from __future__ import annotations

_LAST_CHUNK = b"\r\n0\r\n\r\n"


class Frame:
    """Watches the bytes of one answer go by; ``feed`` tells when it is complete."""

    __slots__ = ("body_left", "chunked", "closes", "head", "tail")

    def __init__(self) -> None:
        self.head: bytes | None = b""
        self.tail = b"\r\n"
        self.chunked = False
        self.closes = False
        self.body_left: int | None = None

    def feed(self, data: bytes) -> bool:
        """Take the next bytes; true when they end the answer."""
        if self.head is not None:
            self.head += data
            cut = self.head.find(b"\r\n\r\n")
            if cut < 0:
                return False
            data = self.head[cut + 4 :]
            self._read_head(self.head[:cut].lower())
            self.head = None
        if self.chunked:
            return self._ends_chunks(data)
        if self.body_left is None:
            return False
        self.body_left -= len(data)
        return self.body_left <= 0

    @property
    def ends_with_connection(self) -> bool:
        """Whether the answer has no length of its own and ends where the server closes."""
        return self.head is None and not self.chunked and self.body_left is None

    def _ends_chunks(self, data: bytes) -> bool:
        size = len(_LAST_CHUNK)
        self.tail = data[-size:] if len(data) >= size else (self.tail + data)[-size:]
        return self.tail == _LAST_CHUNK

    def _read_head(self, head: bytes) -> None:
        lines = head.split(b"\r\n")
        pairs = (line.partition(b":") for line in lines[1:])
        fields = {name.strip(): value.strip() for name, _, value in pairs}
        self.closes = fields.get(b"connection") == b"close" or lines[0].startswith(b"http/1.0")
        self.chunked = b"chunked" in fields.get(b"transfer-encoding", b"")
        length = fields.get(b"content-length", b"")
        if not self.chunked and length.isdigit():
            self.body_left = int(length)
