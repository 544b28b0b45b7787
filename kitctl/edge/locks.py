"""Only one kitctl works on a stack at a time; the second learns who holds it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kitctl.edge.environment import state_dir
from kitctl.edge.files import writing
from kitctl.errors import Exit, KitError

_POLL_S = 0.2


@contextmanager
def project_lock(project: str, *, verb: str, wait_s: float = 0.0, dry_run: bool = False) -> Iterator[None]:
    """Hold the project's lock while the block runs; the kernel frees it when the process dies.

    A ``dry_run`` only sees that nobody else holds it, and writes nothing. Raises KitError ``stack-busy`` (exit 3)
    naming the holder when it stays taken for ``wait_s`` seconds.
    """
    if dry_run:
        _require_free(project, time.monotonic() + wait_s)
        yield
        return
    path = _lock_path(project)
    with writing(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _take(handle, project, time.monotonic() + wait_s)
        with writing(str(path)):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"pid {os.getpid()}: kitctl {verb}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


def holder_of(project: str) -> str | None:
    """Who holds the project's lock now; ``None`` when nobody does."""
    path = _lock_path(project)
    if not path.is_file():
        return None
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(handle, 200, 0).decode("utf-8", "replace").strip() or "the holder left no note"
    finally:
        os.close(handle)
    return None


def _lock_path(project: str) -> Path:
    return Path(state_dir()) / "locks" / f"{project}.lock"


def _require_free(project: str, deadline: float) -> None:
    while (holder := holder_of(project)) is not None:
        if time.monotonic() >= deadline:
            raise _busy(project, holder)
        time.sleep(_POLL_S)


def _take(handle: int, project: str, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise _busy(project, os.pread(handle, 200, 0).decode("utf-8", "replace").strip()) from None
            time.sleep(_POLL_S)


def _busy(project: str, holder: str) -> KitError:
    return KitError(
        "stack-busy",
        f"another kitctl works on {project}",
        evidence=(holder or "the holder left no note",),
        remedy="let it end, or wait for it with --wait-lock SECONDS",
        exit_code=Exit.REFUSED,
    )
