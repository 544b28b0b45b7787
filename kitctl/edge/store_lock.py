"""Let one process at a time fill a model's folder."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kitctl.edge.transfer import disk_error
from kitctl.errors import Exit, KitError

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}


@contextmanager
def hold(path: Path, *, repo: str, wait_s: float, say: Callable[[str], None]) -> Iterator[None]:
    """Hold ``path`` while the block runs. The kernel frees it when the process dies, however it dies.

    Raises KitError ``store-busy`` (exit 3), which names the holder, when it is not free within ``wait_s``. On a
    file system without locks it says so and goes on: what two pulls would then mix up fails its hash.
    """
    handle = _open(path)
    try:
        if _take(handle, path, repo=repo, wait_s=wait_s, say=say):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as failed:
        raise disk_error(failed, path) from failed


def _take(handle: int, path: Path, *, repo: str, wait_s: float, say: Callable[[str], None]) -> bool:
    """Whether the lock is held; false on a file system that has none."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise _busy(handle, repo) from None
            time.sleep(0.2)
        except OSError as refused:
            if refused.errno not in _NO_LOCKS:
                raise disk_error(refused, path) from refused
            say(f"the file system of {path.parent} has no locks: start no second pull of {repo}")
            return False


def _busy(handle: int, repo: str) -> KitError:
    holder = os.pread(handle, 256, 0).decode("utf-8", "replace") or "another process"
    return KitError(
        "store-busy",
        f"{repo} is being filled by {holder}",
        remedy="wait for it (--wait-lock SECONDS does), or end it",
        exit_code=Exit.REFUSED,
    )
