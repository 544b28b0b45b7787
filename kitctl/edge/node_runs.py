"""Run one kitctl a host side by side, each in a process of its own, and hear all of them."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from kitctl.edge.process import run_process

_OWN = ("KITCTL_NODES", "KITCTL_HOST", "KITCTL_JSON")
_SSH_S = 20.0


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How one host's command ended. ``data`` is the JSON object that it printed, ``None`` when it printed none."""

    name: str
    exit_code: int
    data: dict[str, Any] | None


@dataclass(kw_only=True)
class _One:
    name: str
    process: subprocess.Popen[str]
    out: list[str] = field(default_factory=list)


class NodeRuns:
    """The commands that run now, by the name of their host."""

    def __init__(
        self, commands: Mapping[str, tuple[str, ...]], *, say: Callable[[str], None], shown: bool = False
    ) -> None:
        """Start them all. Lines of stderr (with ``shown`` of stdout too) are said with the host's name before."""
        self._say = say
        self._news: queue.Queue[tuple[str, str, str | None]] = queue.Queue()
        self._ones = {name: self._start(name, words) for name, words in commands.items()}
        self._open = {(name, kind) for name in commands for kind in "oe"}
        self._shown = shown
        self._width = max(map(len, commands))

    def _start(self, name: str, words: tuple[str, ...]) -> _One:
        env = {key: value for key, value in os.environ.items() if key not in _OWN}
        process = subprocess.Popen(
            [sys.executable, "-m", "kitctl", *words],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        assert process.stdout is not None and process.stderr is not None
        for kind, stream in (("o", process.stdout), ("e", process.stderr)):
            threading.Thread(target=self._read, args=(name, kind, stream), daemon=True).start()
        return _One(name=name, process=process)

    def _read(self, name: str, kind: str, stream: IO[str]) -> None:
        for line in stream:
            self._news.put((name, kind, line.rstrip("\n")))
        self._news.put((name, kind, None))

    def ends(self) -> Iterator[Ended]:
        """Each command's end, as it comes; begun anew after an interrupt, those that are still to come."""
        while self._open:
            name, kind, line = self._news.get()
            if line is not None:
                self._hear(name, kind, line)
                continue
            self._open.discard((name, kind))
            if not {(name, "o"), (name, "e")} & self._open:
                yield self._end(self._ones[name])

    def _hear(self, name: str, kind: str, line: str) -> None:
        if kind == "o":
            self._ones[name].out.append(line)
        if kind == "e" or self._shown:
            self._say(f"{name:{self._width}}  {line}")

    def _end(self, one: _One) -> Ended:
        data = None
        with suppress(ValueError):
            data = json.loads("\n".join(one.out))
        return Ended(
            name=one.name, exit_code=one.process.wait(), data=data if isinstance(data, dict) else None
        )

    def stop(self) -> None:
        """Ctrl-C to those that still run: each ends what it began on its host."""
        for one in self._ones.values():
            if one.process.poll() is None:
                one.process.send_signal(signal.SIGINT)


def run_on_all(
    commands: Mapping[str, tuple[str, ...]], *, say: Callable[[str], None], shown: bool = False
) -> dict[str, Ended]:
    """All ends by host, once the last has come. Ctrl-C ends them all, and is raised when they have ended."""
    runs = NodeRuns(commands, say=say, shown=shown)
    found: dict[str, Ended] = {}
    ends = runs.ends()
    interrupted = False
    while True:
        try:
            for end in ends:
                found[end.name] = end
            break
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
            runs.stop()
            ends = runs.ends()
    if interrupted:
        raise KeyboardInterrupt
    return {name: found[name] for name in commands}


def address_of(words: str) -> str | None:
    """The IP address of the host that ssh reaches by these last words, by the user's own ssh configuration.

    ``None`` when neither ssh nor the resolver here tells one.
    """
    done = run_process(("ssh", "-G", *words.split()), timeout_s=_SSH_S)
    lines = [line.split(" ", 1) for line in done.stdout.splitlines()]
    name = next((line[1] for line in lines if line[0] == "hostname" and len(line) > 1), None)
    if name is None:
        return None
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return None
    return str(found[0][4][0])
