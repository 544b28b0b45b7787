"""A model server of exactly known rate, with faults on demand: what load clients are tested against.

A request's first chunk leaves ``ttft_ms`` after its last byte was read, each further one ``step_ms`` later. Several
processes share the port (SO_REUSEPORT); each is one epoll loop with a heap of due times. What truly happened
(arrival, first and last chunk of each request) is written to ``truth``, one JSON line a request.
Not a test of its own: ``rate_server`` starts it.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import mmap
import os
import select
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

COUNTERS = (
    "prompt_tokens_total",
    "generation_tokens_total",
    "cached_tokens_total",
    "spec_verify_calls_total",
)


@dataclass
class Behaviour:
    """How the server answers. ``*_every`` n: every n-th generation request, 0 never."""

    ttft_ms: float = 100.0
    step_ms: float = 10.0
    tokens_per_chunk: int = 1
    model: str = "demo"
    answers_as: str = ""
    lists_models: bool = True
    context_tokens: int = 0
    usage: str = "continuous"
    stop_at: int = 0
    zero_tokens: bool = False
    cached_share: float = 0.0
    tells_cached: bool = True
    error_every: int = 0
    stream_error_every: int = 0
    cut_every: int = 0
    silent_every: int = 0
    stall_every: int = 0
    stall_ms: float = 0.0
    accept_delay_ms: float = 0.0
    close: bool = False
    keep_idle_requests: int = 0
    metrics: bool = True
    metrics_factor: float = 1.0
    speculative: bool = False
    completions: bool = True
    takes_ids: bool = True
    answers: dict[str, str] = field(default_factory=dict)


class Connection:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.inbox = b""
        self.outbox = b""
        self.ready_ns = 0
        self.served = 0
        self.busy = False
        self.closed = False


class RateServer:
    def __init__(self, behaviour: Behaviour, port: int, truth: Path, counters: mmap.mmap, tls: str) -> None:
        self.how = behaviour
        self.tls = None
        if tls:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(tls)
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self.listener.bind(("127.0.0.1", port))
        self.listener.listen(4096)
        self.listener.setblocking(False)
        self.poll = select.epoll()
        self.poll.register(self.listener.fileno(), select.EPOLLIN)
        self.by_fd: dict[int, Connection] = {}
        self.due: list[tuple[int, int, Iterator[int]]] = []
        self.sequence = 0
        self.truth = truth.open("w")
        self.counters = counters
        self.hidden_until_ns = 0

    def run(self) -> None:
        while True:
            now = time.monotonic_ns()
            while self.due and self.due[0][0] <= now:
                _, _, job = heapq.heappop(self.due)
                self.advance(job)
            wait = max(0.0, (self.due[0][0] - time.monotonic_ns()) / 1e9) if self.due else 1.0
            # epoll rounds up to whole milliseconds: wake early and spin the rest.
            for fd, _ in self.poll.poll(max(0.0, wait - 0.001) if wait > 0.001 else 0):
                if fd == self.listener.fileno():
                    self.accept()
                else:
                    self.read(self.by_fd[fd])

    def advance(self, job: Iterator[int]) -> None:
        due = next(job, None)
        if due is not None:
            self.sequence += 1
            heapq.heappush(self.due, (due, self.sequence, job))

    def accept(self) -> None:
        try:
            sock, _ = self.listener.accept()
        except BlockingIOError:
            return
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.tls is not None:
            try:
                sock = self.tls.wrap_socket(sock, server_side=True)
            except OSError:
                return
        connection = Connection(sock)
        connection.ready_ns = time.monotonic_ns() + int(self.how.accept_delay_ms * 1e6)
        sock.setblocking(False)
        self.by_fd[sock.fileno()] = connection
        self.poll.register(sock.fileno(), select.EPOLLIN)

    def close(self, connection: Connection) -> None:
        if not connection.closed:
            connection.closed = True
            del self.by_fd[connection.sock.fileno()]
            self.poll.unregister(connection.sock.fileno())
            connection.sock.close()

    def read(self, connection: Connection) -> None:
        try:
            data = connection.sock.recv(1 << 20)
            while isinstance(connection.sock, ssl.SSLSocket) and connection.sock.pending():
                data += connection.sock.recv(1 << 20)
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        except OSError:
            data = b""
        if not data:
            self.close(connection)
            return
        connection.inbox += data
        head, found, rest = connection.inbox.partition(b"\r\n\r\n")
        if not found:
            return
        length = 0
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        if len(rest) < length:
            return
        connection.inbox = rest[length:]
        method, path = head.split(b" ", 2)[:2]
        self.answer(connection, method.decode(), path.decode().partition("?")[0], rest[:length])

    def answer(self, connection: Connection, method: str, path: str, body: bytes) -> None:
        how = self.how
        if path == "/v1/models" and how.lists_models:
            length = {"max_model_len": how.context_tokens} if how.context_tokens else {}
            entry = {"id": how.model, "object": "model", **length}
            self.plain(connection, 200, {"object": "list", "data": [entry]})
        elif path == "/metrics" and how.metrics:
            labels = f'{{engine_type="unified",model_name="{how.model}"}}'
            lines = [f"sglang:{n}{labels} {v * how.metrics_factor}" for n, v in self.read_counters().items()]
            self.send(connection, self.head(200, "text/plain", "\n".join(lines).encode()))
        elif path == "/flush_cache":
            self.plain(connection, 200, {})
        elif method == "POST" and self.serves(path):
            number = self.count("requests", 1)
            asked = json.loads(body)
            if self.fault(connection, path, asked, number):
                return
            job = self.generate(connection, path, asked, number)
            self.advance(job)
        else:
            self.plain(connection, 404, {"detail": "Not Found"})

    def serves(self, path: str) -> bool:
        if path in ("/v1/completions", "/generate"):
            return self.how.completions
        return path == "/v1/chat/completions"

    def fault(self, connection: Connection, path: str, asked: dict[str, Any], number: int) -> bool:
        how = self.how
        if path == "/v1/completions" and isinstance(asked["prompt"], list) and not how.takes_ids:
            self.plain(connection, 400, {"message": "prompt must be a string"})
        elif how.error_every and number % how.error_every == 0:
            self.plain(connection, 500, {"message": "planted"})
        elif how.silent_every and number % how.silent_every == 0:
            pass
        else:
            return False
        return True

    def generate(
        self, connection: Connection, path: str, asked: dict[str, Any], number: int
    ) -> Iterator[int]:
        how = self.how
        arrived = max(time.monotonic_ns(), connection.ready_ns)
        sampling = asked.get("sampling_params", {})
        wanted = (
            asked.get("max_tokens")
            or asked.get("max_completion_tokens")
            or sampling.get("max_new_tokens")
            or 16
        )
        total = 0 if how.zero_tokens else min(wanted, how.stop_at or wanted)
        reason = "length" if total == wanted else "stop"
        prompt = self.prompt_tokens(asked)
        cached = int(prompt * how.cached_share)
        streams = asked.get("stream", False)
        shape = Shape(how, path, asked, prompt, cached, reason)
        due = arrived + int(how.ttft_ms * 1e6)
        closing = "Connection: close\r\n" if how.close else ""
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n{closing}"
        opening = (head + "Transfer-Encoding: chunked\r\n\r\n").encode()
        first = last = 0
        sent = 0
        while sent < total:
            yield due
            if connection.closed:
                return
            count = min(how.tokens_per_chunk, total - sent)
            sent += count
            last = time.monotonic_ns()
            first = first or last
            if streams:
                self.send(connection, opening + chunked(shape.piece(sent, count, final=sent >= total)))
                opening = b""
            if sent * 2 > total and self.breaks_off(connection, number):
                return
            due += int(how.step_ms * 1e6)
            if how.stall_every and number % how.stall_every == 0 and sent == count:
                due += int(how.stall_ms * 1e6)
        if not total:
            yield due
            last = first = time.monotonic_ns()
        self.count_tokens(prompt, sent, cached)
        if streams:
            self.send(connection, opening + b"".join(map(chunked, shape.tail(sent))) + b"0\r\n\r\n")
        else:
            self.plain(connection, 200, shape.whole(sent))
        self.truth.write(json.dumps([arrived, first, last, sent]) + "\n")
        self.truth.flush()
        connection.served += 1
        if how.close or (how.keep_idle_requests and connection.served >= how.keep_idle_requests):
            self.close(connection)

    def breaks_off(self, connection: Connection, number: int) -> bool:
        how = self.how
        if how.cut_every and number % how.cut_every == 0:
            self.close(connection)
            return True
        if how.stream_error_every and number % how.stream_error_every == 0:
            self.send(connection, chunked(b'data: {"error":{"message":"planted"}}\n\n') + b"0\r\n\r\n")
            return True
        return False

    def prompt_tokens(self, asked: dict[str, Any]) -> int:
        prompt = asked.get("prompt") or asked.get("input_ids") or asked.get("text")
        if prompt is None:
            prompt = " ".join(str(message["content"]) for message in asked["messages"])
        return len(prompt) if isinstance(prompt, list) else len(prompt.split())

    # counters that all processes share
    def count(self, name: str, amount: int) -> int:
        place = 8 * (COUNTERS.index(name) if name in COUNTERS else len(COUNTERS))
        with locked(self.counters_lock):
            value = struct.unpack_from("q", self.counters, place)[0] + amount
            struct.pack_into("q", self.counters, place, value)
        return int(value)

    counters_lock = -1

    def count_tokens(self, prompt: int, generated: int, cached: int) -> None:
        self.count("prompt_tokens_total", prompt)
        self.count("generation_tokens_total", generated)
        self.count("cached_tokens_total", cached)
        if self.how.speculative:
            self.count("spec_verify_calls_total", -(-generated // self.how.tokens_per_chunk))

    def read_counters(self) -> dict[str, int]:
        values = struct.unpack_from(f"{len(COUNTERS)}q", self.counters, 0)
        pairs = dict(zip(COUNTERS, values, strict=True))
        if not self.how.speculative:
            del pairs["spec_verify_calls_total"]
        return pairs

    def head(self, status: int, kind: str, body: bytes) -> bytes:
        closing = "Connection: close\r\n" if self.how.close else ""
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n{closing}Content-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    def plain(self, connection: Connection, status: int, body: dict[str, Any]) -> None:
        self.send(connection, self.head(status, "application/json", json.dumps(body).encode()))

    def send(self, connection: Connection, data: bytes) -> None:
        if not connection.closed:
            with contextlib.suppress(OSError):
                connection.sock.sendall(data)


@contextlib.contextmanager
def locked(handle: int) -> Iterator[None]:
    os.lockf(handle, os.F_LOCK, 0)
    try:
        yield
    finally:
        os.lockf(handle, os.F_ULOCK, 0)


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Shape:
    """The bytes of chunks, tails and whole answers in the three formats that SGLang speaks."""

    def __init__(
        self, how: Behaviour, path: str, asked: dict[str, Any], prompt: int, cached: int, reason: str
    ) -> None:
        self.how = how
        self.path = path
        self.kind = "chat.completion.chunk" if "chat" in path else "text_completion"
        self.prompt = prompt
        self.cached = cached
        self.reason = reason
        self.options = asked.get("stream_options") or {}
        self.model = how.answers_as or asked.get("model") or how.model
        question = json.dumps(asked)
        self.text = next((text for key, text in how.answers.items() if key in question), "")

    def usage(self, sent: int) -> dict[str, Any]:
        details = {"cached_tokens": self.cached} if self.how.tells_cached else None
        return {
            "prompt_tokens": self.prompt,
            "total_tokens": self.prompt + sent,
            "completion_tokens": sent,
            "prompt_tokens_details": details,
        }

    def meta(self, sent: int, reason: str | None) -> dict[str, Any]:
        meta: dict[str, Any] = {
            "finish_reason": {"type": reason} if reason else None,
            "prompt_tokens": self.prompt,
            "completion_tokens": sent,
            "cached_tokens": self.cached,
        }
        if self.how.speculative:
            k = self.how.tokens_per_chunk
            calls = -(-sent // k)
            histogram = [0] * (k - 1) + [calls]
            meta |= {
                "spec_verify_ct": calls,
                "spec_accept_length": sent / calls if calls else 0.0,
                "spec_num_correct_drafts": calls * (k - 1),
                "spec_num_proposed_drafts": calls * 7,
                "spec_correct_drafts_histogram": histogram,
            }
        return meta

    def piece(self, sent: int, count: int, *, final: bool) -> bytes:
        text = " w" * count
        if self.path == "/generate":
            reason = self.reason if final else None
            return event({"text": " w" * sent, "meta_info": self.meta(sent, reason)})
        body: dict[str, Any] = {
            "id": "x",
            "object": self.kind,
            "model": self.model,
            "choices": [{"index": 0}],
        }
        choice = body["choices"][0]
        if "chat" in self.path:
            choice["delta"] = {"content": text}
        else:
            choice["text"] = text
        choice["finish_reason"] = None
        if self.how.usage == "continuous" and self.options.get("continuous_usage_stats"):
            body["usage"] = self.usage(sent)
        return event(body)

    def tail(self, sent: int) -> list[bytes]:
        if self.path == "/generate":
            return [b"data: [DONE]\n\n"]
        choice = {"index": 0, "finish_reason": self.reason}
        choice |= {"delta": {}} if "chat" in self.path else {"text": ""}
        tail = [event({"id": "x", "object": self.kind, "model": self.model, "choices": [choice]})]
        if self.how.usage != "none" and self.options.get("include_usage"):
            tail.append(
                event(
                    {
                        "id": "x",
                        "object": self.kind,
                        "model": self.model,
                        "choices": [],
                        "usage": self.usage(sent),
                    }
                )
            )
        return [*tail, b"data: [DONE]\n\n"]

    def whole(self, sent: int) -> dict[str, Any]:
        text = self.text or " w" * sent
        if self.path == "/generate":
            return {"text": text, "output_ids": [7] * sent, "meta_info": self.meta(sent, self.reason)}
        choice: dict[str, Any] = {"index": 0, "finish_reason": self.reason}
        choice |= (
            {"message": {"role": "assistant", "content": text}} if "chat" in self.path else {"text": text}
        )
        usage = {"usage": self.usage(sent)} if self.how.usage != "none" else {}
        return {"id": "x", "model": self.model, "choices": [choice], **usage}


def event(body: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


@dataclass(frozen=True)
class Running:
    """A started server: its address, and what it truly did."""

    url: str
    folder: Path

    def truth(self) -> list[tuple[int, int, int, int]]:
        """(arrived_ns, first_ns, last_ns, tokens) of every finished request."""
        lines = [line for path in self.folder.glob("*.truth") for line in path.read_text().splitlines()]
        return [tuple(json.loads(line)) for line in lines]


@contextlib.contextmanager
def rate_server(
    behaviour: Behaviour | None = None, *, processes: int = 1, tls: str = ""
) -> Iterator[Running]:
    """Run the server in ``processes`` processes on a free port until the block ends."""
    with tempfile.TemporaryDirectory(prefix="rateserver-") as folder, socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        job = Path(folder) / "job.json"
        job.write_text(json.dumps({"how": asdict(behaviour or Behaviour()), "port": port, "tls": tls}))
        (Path(folder) / "counters").write_bytes(bytes(4096))
        argv = [sys.executable, str(Path(__file__)), folder]
        children = [subprocess.Popen([*argv, str(n)], stdout=subprocess.PIPE) for n in range(processes)]
        try:
            for child in children:
                assert child.stdout is not None
                assert child.stdout.readline() == b"ready\n"
            yield Running(f"{'https' if tls else 'http'}://127.0.0.1:{port}", Path(folder))
        finally:
            for child in children:
                child.send_signal(signal.SIGTERM)
                child.wait()
                assert child.stdout is not None
                child.stdout.close()


def main(folder: Path, number: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    job = json.loads((folder / "job.json").read_text())
    with (folder / "counters").open("r+b") as shared:
        server = RateServer(
            Behaviour(**job["how"]), job["port"], folder / f"{number}.truth", mmap.mmap(shared.fileno(), 4096),
            job["tls"],
        )  # fmt: skip
        server.counters_lock = shared.fileno()
        print("ready", flush=True)
        server.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
