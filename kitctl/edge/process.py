"""Run one process to its end: no shell, fixed locale, time limit, everything it said kept."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A process that ended. ``exit_code`` is ``None`` when it could not run at all: ``failure`` says why."""

    argv: tuple[str, ...]
    exit_code: int | None
    stdout: str
    stderr: str
    failure: str | None = None

    @property
    def ok(self) -> bool:
        """Whether it ran and exited 0."""
        return self.exit_code == 0


def run_process(
    argv: tuple[str, ...],
    *,
    timeout_s: float,
    env: dict[str, str] | None = None,
    stdin: str | None = None,
    cwd: str | None = None,
    without: str | None = None,
) -> Finished:
    """Run ``argv`` and wait at most ``timeout_s`` seconds; never raises for what the process does.

    ``env`` is added to this process's environment, of which variables that begin with ``without`` are left out. A
    missing program, a refused start and a time-out give ``exit_code`` ``None`` with ``failure`` set; what it wrote
    until then is kept.
    """
    kept = {name: value for name, value in os.environ.items() if not (without and name.startswith(without))}
    environment = {**kept, "LC_ALL": "C.UTF-8", **(env or {})}
    try:
        done = subprocess.run(
            argv,
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env=environment,
            cwd=cwd,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return Finished(
            argv=argv,
            exit_code=None,
            stdout=_text(late.stdout),
            stderr=_text(late.stderr),
            failure=f"no answer within {timeout_s:g} s",
        )
    except OSError as refused:
        return Finished(argv=argv, exit_code=None, stdout="", stderr="", failure=str(refused))
    return Finished(argv=argv, exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)


def _text(raw: bytes | str | None) -> str:
    if raw is None:
        return ""
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
