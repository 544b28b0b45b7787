"""Put prepared HTTP requests on the wire and write down what came back, and when. Nothing is parsed here.

A process of its own (``python -m kitctl.edge.load_worker JOB``), so that other work of the command does not
disturb its clock. All connections stand before the start. A request's clock starts when its last byte was handed
to the kernel; all sockets that one wait found readable are stamped with the time at which that wait returned.
The log is read after the point (``kitctl.bench.event_log``).
"""

from __future__ import annotations

import contextlib
import errno
import gc
import heapq
import json
import os
import resource
import select
import shutil
import signal
import socket
import ssl
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

from kitctl.bench.http_frame import Frame
from kitctl.bench.log_format import DATA, END, HEADER, SENT

READ_BYTES = 1 << 18
FLUSH_BYTES = 1 << 18
HEARTBEAT_NS = 10_000_000
TELL_NS = 500_000_000
PAUSE_NS = 50_000_000
CONNECT_TIMEOUT_S = 10.0
PRIORITY = -10
_NOT_YET = (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError)
_READ_FAILED = select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR


class Stream:
    """One connection and the request that it carries."""

    __slots__ = ("begun_ns", "due_ns", "frame", "got", "index", "request", "retried", "sending", "sock", "state",
                 "touched_ns", "used")  # fmt: skip

    def __init__(self, index: int) -> None:
        self.index = index
        self.sock: socket.socket | None = None
        self.used = False
        self.state = "idle"
        self.request = -1
        self.prepare(memoryview(b""), 0, retried=False)

    def prepare(self, body: memoryview, due_ns: int, *, retried: bool) -> None:
        """Make ready to send ``body``."""
        self.frame = Frame()
        self.sending = body
        self.due_ns = due_ns
        self.retried = retried
        self.got = False
        self.begun_ns = self.touched_ns = time.monotonic_ns()


class EventLog:
    """Appends records to a file in large writes."""

    def __init__(self, path: str) -> None:
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb", buffering=0)
        self._buffer = bytearray()

    def write(self, kind: int, request: int, at_ns: int, payload: bytes) -> None:
        """Append one record."""
        self._buffer += HEADER.pack(kind, request, at_ns, len(payload))
        self._buffer += payload
        if len(self._buffer) >= FLUSH_BYTES:
            self._file.write(self._buffer)
            self._buffer.clear()

    def close(self) -> None:
        """Write the rest."""
        self._file.write(self._buffer)
        self._file.close()


class Worker:
    """The event loop of one client process. ``job``: see ``kitctl.edge.load_client``."""

    def __init__(self, job: dict[str, Any], blob: bytes) -> None:
        view = memoryview(blob)
        self.job = job
        self.requests = [view[start : start + size] for start, size in job["requests"]]
        self.numbers: list[int] = job["numbers"]
        self.address = (job["address"][0], job["address"][1])
        self.tls = _tls_context(job) if job["tls"] else None
        self.log = EventLog(job["log"])
        self.poll = select.epoll()
        self.by_fd: dict[int, Stream] = {}
        self.streams = [Stream(index) for index in range(job["streams"])]
        self.starts: list[tuple[int, int]] = []
        self.waiting: deque[int] = deque()
        self.taken = self.done = self.reconnects = 0
        self.lags_ns: list[int] = []
        # One buffer for all reads: a new one of this size for each chunk would cost more than the chunk.
        self.room = memoryview(bytearray(READ_BYTES))

    # connections ----------------------------------------------------------------------------------------------
    def connect_all(self) -> None:
        """Open every connection; raises OSError when the server cannot be reached."""
        for stream in self.streams:
            sock = socket.create_connection(self.address, timeout=CONNECT_TIMEOUT_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls is not None:
                sock = self._with_tls(sock)
            sock.setblocking(False)
            self._adopt(stream, sock, select.EPOLLIN)

    def _with_tls(self, sock: socket.socket) -> socket.socket:
        assert self.tls is not None
        try:
            return self.tls.wrap_socket(sock, server_hostname=self.job["server_name"])
        except OSError as failed:
            raise OSError(f"TLS handshake: {failed}") from failed

    def _adopt(self, stream: Stream, sock: socket.socket, events: int) -> None:
        stream.sock = sock
        stream.used = False
        self.by_fd[sock.fileno()] = stream
        self.poll.register(sock.fileno(), events)

    def _release(self, stream: Stream) -> None:
        if stream.sock is not None:
            self.by_fd.pop(stream.sock.fileno())
            self.poll.unregister(stream.sock.fileno())

    def _drop(self, stream: Stream) -> None:
        self._release(stream)
        if stream.sock is not None:
            stream.sock.close()
        stream.sock = None

    def _reconnect(self, stream: Stream) -> None:
        """Begin to connect anew without waiting; the request goes out once the connection stands."""
        family = socket.AF_INET6 if ":" in self.address[0] else socket.AF_INET
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as refused:
            self._finish(stream, time.monotonic_ns(), str(refused))
            return
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        sock.connect_ex(self.address)
        self._adopt(stream, sock, select.EPOLLOUT)
        stream.state = "connecting"

    def _connected(self, stream: Stream) -> None:
        sock = stream.sock
        assert sock is not None
        failed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failed:
            self._lost(stream, f"connection refused: errno {failed}")
        elif self.tls is None:
            self._send(stream)
        else:
            self._release(stream)
            name = self.job["server_name"]
            wrapped = self.tls.wrap_socket(sock, server_hostname=name, do_handshake_on_connect=False)
            self._adopt(stream, wrapped, select.EPOLLIN | select.EPOLLOUT)
            stream.state = "handshake"

    def _shake_hands(self, stream: Stream) -> None:
        sock = stream.sock
        assert isinstance(sock, ssl.SSLSocket)
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            self.poll.modify(sock.fileno(), select.EPOLLIN)
        except ssl.SSLWantWriteError:
            self.poll.modify(sock.fileno(), select.EPOLLOUT)
        except OSError as broken:
            self._lost(stream, f"TLS: {broken}")
        else:
            self._send(stream)

    # a request's life -----------------------------------------------------------------------------------------
    def _take(self, stream: Stream, due_ns: int = 0) -> None:
        if self.taken < len(self.requests):
            stream.request = self.taken
            self.taken += 1
            self._begin(stream, due_ns, retried=False)

    def _begin(self, stream: Stream, due_ns: int, *, retried: bool) -> None:
        stream.prepare(self.requests[stream.request], due_ns, retried=retried)
        if stream.sock is None:
            self._reconnect(stream)
        else:
            self._send(stream)

    def _send(self, stream: Stream) -> None:
        sock = stream.sock
        assert sock is not None
        try:
            while stream.sending:
                stream.sending = stream.sending[sock.send(stream.sending) :]
        except _NOT_YET:
            stream.state = "sending"
            self.poll.modify(sock.fileno(), select.EPOLLOUT | select.EPOLLIN)
        except OSError as broken:
            self._lost(stream, str(broken))
        else:
            if stream.state not in ("idle", "reading"):
                self.poll.modify(sock.fileno(), select.EPOLLIN)
            self._mark_sent(stream, time.monotonic_ns())

    def _mark_sent(self, stream: Stream, now: int) -> None:
        stream.state = "reading"
        stream.touched_ns = now
        payload = json.dumps([self.job["first_stream"] + stream.index, stream.begun_ns, stream.due_ns])
        self.log.write(SENT, self.numbers[stream.request], now, payload.encode())

    def _lost(self, stream: Stream, why: str) -> None:
        """A kept-alive connection that the server closed before any byte came is tried once anew."""
        may_retry = stream.used and not stream.got and not stream.retried
        self._drop(stream)
        if may_retry:
            self.reconnects += 1
            self._begin(stream, stream.due_ns, retried=True)
        else:
            self._finish(stream, time.monotonic_ns(), why or "connection closed")

    def _finish(self, stream: Stream, now: int, why: str) -> None:
        self.log.write(END, self.numbers[stream.request], now, why.encode("utf-8", "replace"))
        self.done += 1
        stream.used = True
        stream.state = "idle"
        if stream.frame.closes and stream.sock is not None:
            self._drop(stream)
        if self.waiting:
            self._take(stream, self.waiting.popleft())
        elif self.job["open_loop"]:
            return
        elif why:
            heapq.heappush(self.starts, (now + PAUSE_NS, stream.index))
        else:
            self._take(stream)

    # events ---------------------------------------------------------------------------------------------------
    def _on_event(self, stream: Stream, mask: int, now: int) -> None:
        if stream.state == "connecting":
            self._connected(stream)
        elif stream.state == "handshake":
            self._shake_hands(stream)
        elif stream.state == "sending" and not mask & _READ_FAILED:
            self._send(stream)
        else:
            self._read(stream, now)

    def _read(self, stream: Stream, now: int) -> None:
        sock = stream.sock
        assert sock is not None
        try:
            data = bytes(self.room[: sock.recv_into(self.room)])
            while isinstance(sock, ssl.SSLSocket) and sock.pending():
                data += sock.recv(READ_BYTES)
        except _NOT_YET:
            return
        except OSError as broken:
            self._ended(stream, now, str(broken))
            return
        if not data:
            self._ended(stream, now, "")
            return
        if stream.state == "sending":
            self.poll.modify(sock.fileno(), select.EPOLLIN)
            stream.frame.closes = True
            self._mark_sent(stream, now)
        if stream.state != "reading":
            return
        self.log.write(DATA, self.numbers[stream.request], now, data)
        stream.got = True
        stream.touched_ns = now
        if stream.frame.feed(data):
            self._finish(stream, now, "")

    def _ended(self, stream: Stream, now: int, why: str) -> None:
        """The server closed: between requests, at the end of an answer without length, or too early."""
        if stream.state == "idle":
            self._drop(stream)
        elif stream.state == "reading" and not why and stream.frame.ends_with_connection:
            self._drop(stream)
            self._finish(stream, now, "")
        else:
            self._lost(stream, why or ("connection closed before the answer was complete" * stream.got))

    def _expire(self, now: int) -> None:
        limit = int(self.job["timeout_s"] * 1e9)
        for stream in list(self.streams):
            if stream.state != "idle" and now - stream.touched_ns > limit:
                self._drop(stream)
                self._finish(stream, now, f"timeout: no byte for {self.job['timeout_s']:g} s")

    # the loop -------------------------------------------------------------------------------------------------
    def run(self, go_ns: int) -> dict[str, Any]:
        """Send every request at its time, wait for the last answer, say how busy and how late this process was.

        ``lag_mean_ms`` is what a chunk that arrives at a random moment waits on average until it is stamped: a beat
        that came L late stands for a time of L in which nothing was read.
        """
        self.starts = [(go_ns + int(at_s * 1e9), number) for number, at_s in enumerate(self.job["starts_s"])]
        heapq.heapify(self.starts)
        beat = told = go_ns
        busy_s, begun = time.process_time(), time.monotonic_ns()
        while self.done < len(self.requests):
            now = self._step(beat)
            if now >= beat:
                self.lags_ns.append(now - beat)
                beat = max(now, go_ns) + HEARTBEAT_NS
            if now - told > TELL_NS:
                told = now
                self._expire(now)
                _tell({"done": self.done, "of": len(self.requests)})
        self.log.close()
        wall_s = (time.monotonic_ns() - begun) / 1e9
        lags = sorted(self.lags_ns) or [0]
        return {
            "cpu_s": time.process_time() - busy_s,
            "wall_s": wall_s,
            "lag_mean_ms": sum(lag * lag for lag in lags) / 2 / 1e15 / max(wall_s, 1e-9),
            "lag_p99_ms": lags[int(0.99 * (len(lags) - 1))] / 1e6,
            "lag_max_ms": lags[-1] / 1e6,
            "reconnects": self.reconnects,
        }

    def _step(self, beat: int) -> int:
        now = time.monotonic_ns()
        while self.starts and self.starts[0][0] <= now:
            self._start(*heapq.heappop(self.starts))
        until = min(beat, self.starts[0][0]) if self.starts else beat
        events = self.poll.poll(max(0.0, (until - now) / 1e9))
        now = time.monotonic_ns()
        for fd, mask in events:
            stream = self.by_fd.get(fd)
            if stream is not None:
                self._on_event(stream, mask, now)
        return now

    def _start(self, due_ns: int, number: int) -> None:
        if not self.job["open_loop"]:
            self._take(self.streams[number])
            return
        idle = next((stream for stream in self.streams if stream.state == "idle"), None)
        if idle is None and len(self.streams) < self.job["most_streams"]:
            idle = Stream(len(self.streams))
            self.streams.append(idle)
        if idle is None:
            self.waiting.append(due_ns)
        else:
            self._take(idle, due_ns)


def _tls_context(job: dict[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=job["ca_file"])
    if job["insecure"]:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _raise_priority() -> None:
    """Run ahead of other work where that is allowed: a client that waits for a core stamps late."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)


def _raise_open_files() -> None:
    """A stream is an open file: take as many as the host allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _tell(news: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(news) + "\n")
    sys.stdout.flush()


def main(job_path: str) -> None:
    """Read the job, connect, say so, wait for the start time on stdin, run, and say how it went."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _raise_priority()
    _raise_open_files()
    job = json.loads(Path(job_path).read_text(encoding="utf-8"))
    worker = Worker(job, Path(job["blob"]).read_bytes())
    try:
        worker.connect_all()
    except OSError as refused:
        kind = "no-more-files" if refused.errno in (errno.EMFILE, errno.ENFILE) else "unreachable"
        _tell({kind: str(refused)})
        return
    _tell({"ready": True})
    go = sys.stdin.readline()
    if not go:
        return
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        _tell({"summary": worker.run(int(go))})
    except BrokenPipeError:
        # The command was killed: leave nothing behind in its place.
        shutil.rmtree(Path(job_path).parent, ignore_errors=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main(sys.argv[1])
