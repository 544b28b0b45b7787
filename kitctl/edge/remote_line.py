"""The ssh line to a remote host: what the agent there sends, as frames; never longer silent than it may be."""

from __future__ import annotations

import json
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kitctl.edge.process import run_process
from kitctl.errors import Exit, KitError
from kitctl.host.remote_address import (
    MARK,
    MISSING,
    NO_PYTHON,
    READY,
    SshHost,
    agent_command,
    no_python,
    ssh_argv,
    unpack_command,
    unreachable_host,
)

_CHUNK = 64 * 1024
_FIRST_WORD_S = 90.0
_END_S = 5.0


class LineDroppedError(Exception):
    """The line is gone; the work on the other side is not."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One message of the agent: its kind (``o e n t f x``) and its bytes."""

    kind: str
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Lacking:
    """The remote has no copy of kitctl (``code``) or of its libraries (``lib``) for its Python of this ``tag``."""

    tag: str
    parts: tuple[str, ...]


class Line:
    """One ssh process and the agent behind it."""

    def __init__(self, host: SshHost, *, code: str, libraries: str, connect_s: float) -> None:
        self._host = host
        argv = ssh_argv(host, agent_command(code, libraries), connect_s=connect_s)
        try:
            self._ssh = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as missing:
            raise ssh_missing(str(missing)) from missing
        self._rest = b""

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._ssh.kill()
        for stream in (self._ssh.stdin, self._ssh.stdout, self._ssh.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self._ssh.wait()

    def greet(self) -> Lacking | None:
        """Wait for the agent; ``None`` when it is ready.

        Raises KitError (exit 10) ``host-unreachable`` or ``remote-without-python``.
        """
        deadline = time.monotonic() + _FIRST_WORD_S
        while True:
            if b"\n" not in self._rest and not self._more(deadline - time.monotonic()):
                raise unreachable_host(self._host, self._last_words())
            if b"\n" not in self._rest:
                continue
            line, _, self._rest = self._rest.partition(b"\n")
            words = line.decode("utf-8", "replace").split()
            if words[:1] == [MARK]:
                return self._read_mark(words[1:])

    def _read_mark(self, words: list[str]) -> Lacking | None:
        if words[0] == READY:
            return None
        if words[0] == MISSING:
            return Lacking(tag=words[1], parts=tuple(words[2:]))
        assert words[0] == NO_PYTHON
        raise no_python(self._host, " ".join(words[1:]))

    def send(self, data: bytes) -> None:
        """Say something to the agent. Raises LineDroppedError."""
        assert self._ssh.stdin is not None
        view = memoryview(data)
        try:
            while view:
                view = view[self._ssh.stdin.write(view) or 0 :]
        except OSError as gone:
            raise LineDroppedError(str(gone)) from gone

    def send_header(self, header: dict[str, Any], carried: bytes) -> None:
        """The first thing that the agent is told. Raises LineDroppedError."""
        self.send(json.dumps({**header, "size": len(carried)}).encode() + b"\n" + carried)

    def finish(self) -> None:
        """Say that all has come, and wait until the agent has cleared its folder away. Raises LineDroppedError."""
        self.send(b"done\n")
        deadline = time.monotonic() + _END_S
        while time.monotonic() < deadline and self._more(deadline - time.monotonic()):
            pass

    def frames(self, *, silent_s: float) -> Iterator[Frame]:
        """What the agent sends. Raises LineDroppedError when it is silent for ``silent_s`` seconds or gone."""
        while True:
            head = self._take_line(silent_s)
            kind, _, size = head.partition(b" ")
            body = self._take(int(size), silent_s)
            yield Frame(kind=kind.decode(), body=body)

    def _take_line(self, silent_s: float) -> bytes:
        while b"\n" not in self._rest:
            if not self._more(silent_s):
                raise LineDroppedError(self._last_words())
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _take(self, size: int, silent_s: float) -> bytes:
        while len(self._rest) < size:
            if not self._more(silent_s):
                raise LineDroppedError(self._last_words())
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def _more(self, wait_s: float) -> bool:
        """Read what is there within ``wait_s`` seconds; ``False`` when nothing came or will come."""
        stdout = self._ssh.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], max(0.0, wait_s))[0]:
            return False
        chunk = stdout.read(_CHUNK)
        self._rest += chunk or b""
        return bool(chunk)

    def _last_words(self) -> str:
        """The last line that ssh wrote to stderr."""
        with suppress(subprocess.TimeoutExpired):
            self._ssh.wait(_END_S)
        self._ssh.kill()
        assert self._ssh.stderr is not None
        said = (self._ssh.stderr.read() or b"").decode("utf-8", "replace").strip().splitlines()
        return said[-1].strip() if said else ""


def upload(host: SshHost, archive: bytes, folder: str, *, connect_s: float, limit_s: float) -> None:
    """Unpack ``archive`` into ``folder`` of the remote's cache. Raises KitError ``remote-unwritable`` (exit 10)."""
    argv = ssh_argv(host, unpack_command(folder), connect_s=connect_s)
    try:
        done = subprocess.run(argv, input=archive, capture_output=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired as late:
        raise unreachable_host(host, f"{len(archive)} bytes were not taken within {limit_s:g} s") from late
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise KitError(
            "remote-unwritable",
            f"kitctl could not be put on {host.destination}",
            evidence=tuple(said[-3:]) or (f"exit code {done.returncode}",),
            remedy=f"see on {host.destination} that ~/.cache is writable and its disk has room",
            exit_code=Exit.UNREACHABLE,
        )


def ssh_missing(said: str) -> KitError:
    """The error for a machine without ssh."""
    return KitError(
        "ssh-missing",
        "there is no ssh program here, and --host ssh:// needs it",
        evidence=(said,),
        remedy="install OpenSSH's client: apt-get install openssh-client",
        exit_code=Exit.UNREACHABLE,
    )


def context_endpoint(name: str) -> str | None:
    """The engine's address in the docker context ``name``; ``None`` when docker knows no such context."""
    argv = ("docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}", name)
    done = run_process(argv, timeout_s=20.0)
    return done.stdout.strip() if done.ok else None
