"""Where results lie: lines appended to a file that survives an interrupt, and the newest file of a kind."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kitctl.edge.environment import state_dir
from kitctl.edge.files import read_text_if_there, unreadable, writing
from kitctl.errors import Exit, KitError


def new_run_id() -> str:
    """A name for one run that sorts by time: ``20261129T153000Z-1f2e3d``."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def utc_now() -> str:
    """The time as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def results_dir() -> str:
    """The folder of all results that were given no place of their own."""
    return str(Path(state_dir()) / "results")


def append_lines(path: str, lines: list[str]) -> None:
    """Append whole lines and see them on disk, or leave the file as it was.

    Raises KitError ``file-unwritable`` (exit 2).
    """
    target = Path(path)
    size: int | None = None
    try:
        size = target.stat().st_size if target.exists() else None
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("a", encoding="utf-8") as out:
            out.write("".join(f"{line}\n" for line in lines))
            out.flush()
            os.fsync(out.fileno())
    except OSError as refused:
        _restore(target, size)
        raise _unwritable(path, refused) from refused


def _unwritable(path: str, refused: OSError) -> KitError:
    return KitError(
        "file-unwritable",
        f"{path} cannot be written: {refused.strerror or refused}",
        remedy="give a writable place with -o FILE",
        exit_code=Exit.USAGE,
    )


def _restore(path: Path, size: int | None) -> None:
    """Cut what a failed write left behind; a file that was not there (size ``None``) goes."""
    with suppress(OSError):
        if not path.is_file():
            return
        if size is None:
            path.unlink()
        elif path.stat().st_size > size:
            os.truncate(path, size)


def newest_result(folder: str, *holds: str) -> str | None:
    """The newest ``.jsonl`` in ``folder`` whose first line holds every text of ``holds``; ``None`` without one."""
    for path in sorted(Path(folder).glob("*.jsonl"), reverse=True):
        with path.open(encoding="utf-8", errors="replace") as lines:
            first = lines.readline()
        if all(text in first for text in holds):
            return str(path)
    return None


# a last line that an interrupt cut short ------------------------------------------------------------------------------
def read_whole_lines(path: str) -> str:
    """The file's text without a last line that was cut short.

    Raises KitError ``file-unreadable`` (exit 2).
    """
    try:
        data = Path(path).read_bytes()
        return data[: _whole_bytes(data)].decode("utf-8")
    except (OSError, UnicodeDecodeError) as broken:
        raise unreadable(path, broken) from broken


def mend_tail(path: str) -> None:
    """Cut a last line that an interrupt cut short, and end a whole one that only lacks its newline.

    Raises KitError ``file-unwritable`` (exit 2).
    """
    with writing(path), Path(path).open("r+b") as file:
        data = file.read()
        whole = _whole_bytes(data)
        file.truncate(whole)
        if not data[:whole].endswith(b"\n"):
            file.write(b"\n")
        file.flush()
        os.fsync(file.fileno())


def _whole_bytes(data: bytes) -> int:
    """How many bytes of ``data`` are whole lines: a JSON object without its end is none."""
    lines = data.rfind(b"\n") + 1
    try:
        msgspec.json.decode(data[lines:])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return lines
    return len(data)


# one writer at a time -------------------------------------------------------------------------------------------------
@contextmanager
def result_lock(path: str, *, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the result file itself while the block runs; the kernel frees it when the process dies, however it dies.

    A file that was not there and stays empty goes again. Raises KitError ``result-busy`` (exit 3), which names the
    holder where the kernel tells it, and ``file-unwritable`` (exit 2).
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        was_there = target.exists()
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as refused:
        raise _unwritable(path, refused) from refused
    try:
        _take(handle, path, say)
        try:
            yield
        finally:
            if not was_there and os.fstat(handle).st_size == 0:
                target.unlink(missing_ok=True)
    finally:
        os.close(handle)


def _take(handle: int, path: str, say: Callable[[str], None]) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _busy(path, _holder(handle)) from None
    except OSError as refused:
        if refused.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
        say(f"the file system of {path} has no locks: let no second kitctl write it")


def _holder(handle: int) -> str:
    """Who holds the lock on an open file, as /proc/locks tells it."""
    file = os.fstat(handle)
    place = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    for line in (read_text_if_there("/proc/locks") or "").splitlines():
        fields = line.split()
        if fields[1:2] == ["FLOCK"] and fields[5:6] == [place] and int(fields[4]) > 0:
            return f"process {fields[4]}"
    return "the kernel does not tell which process it is"


def _busy(path: str, holder: str) -> KitError:
    return KitError(
        "result-busy",
        f"another kitctl writes {path}",
        evidence=(holder,),
        remedy="let it end, or give another -o FILE",
        exit_code=Exit.REFUSED,
    )
