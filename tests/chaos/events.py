"""Run kitctl against a fault and read, on one clock, when the fault happened and when the verdict came."""

import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kitctl_process import KitUser, docker

EVENT = re.compile(r"stub-event \S+ (\d+\.\d+)")


@dataclass(kw_only=True)
class Told:
    """A kitctl that ran to its end: its lines with the second at which each came, and its JSON."""

    exit_code: int
    lines: list[tuple[float, str]]
    data: dict[str, Any]

    def when(self, text: str) -> float:
        """The second at which the first line with ``text`` came."""
        return next(at_s for at_s, line in self.lines if text in line)


@dataclass(kw_only=True)
class Watcher:
    """A ``kitctl watch --json`` in the background."""

    process: subprocess.Popen[str]
    seen: list[tuple[float, dict[str, Any]]] = field(default_factory=list)

    def wait_for(self, state: str, *, timeout_s: float) -> tuple[float, dict[str, Any]]:
        """The second at which the state was told, and the change."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for at_s, change in self.seen:
                if change["after"] == state:
                    return at_s, change
            time.sleep(0.02)
        raise AssertionError(f"{state} was not told: {[change['after'] for _, change in self.seen]}")

    def states(self) -> list[str]:
        """All states told so far."""
        return [str(change["after"]) for _, change in self.seen]


def settings(env: dict[str, str]) -> list[str]:
    """Environment variables of the stack as ``--set`` words."""
    return [word for name, value in env.items() for word in ("--set", f"environment.{name}={_quoted(value)}")]


def _quoted(value: str) -> str:
    return json.dumps(value) if re.fullmatch(r"[\d.]+", value) else value


def up(user: KitUser, image: str, env: dict[str, str], *words: str) -> Told:
    """``kitctl up cpu-demo --json`` to its end."""
    run = user.start(*user.up("--image", image, *settings(env), *words, "--json"))
    with run.process as process:
        assert process.stderr is not None and process.stdout is not None
        lines = [(time.time(), line.rstrip()) for line in process.stderr]
        out = process.stdout.read()
    code = process.returncode
    data = json.loads(out) if out.strip().startswith("{") else {}
    return Told(exit_code=code, lines=lines, data=data)


def event_in_run(user: KitUser, told: Told) -> float:
    """The second of the fault, as the server logged it (the run's own copy of the log)."""
    log = (user.state / "runs" / str(told.data["run"]) / "engine.log").read_text()
    return float(EVENT.findall(log)[-1])


def event_in_container(user: KitUser, *, timeout_s: float = 20.0) -> float:
    """The second of the fault in the log of a container that is still there."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = EVENT.findall(docker("logs", user.containers()[0]))
        if found:
            return float(found[-1])
        time.sleep(0.1)
    raise AssertionError("the server logged no event")


def watch(user: KitUser, *words: str, stack: str = "cpu-demo") -> Iterator[Watcher]:
    """``kitctl watch --json`` while the block runs."""
    run = user.start("watch", stack, "--name", user.name, "--json", *words)
    watcher = Watcher(process=run.process)
    reader = threading.Thread(target=_read, args=(watcher,), daemon=True)
    reader.start()
    try:
        yield watcher
    finally:
        run.process.kill()
        reader.join(timeout=5)
        run.process.communicate()


def _read(watcher: Watcher) -> None:
    assert watcher.process.stdout is not None
    for line in watcher.process.stdout:
        watcher.seen.append((time.time(), json.loads(line)))
