"""Where results lie: lines appended to a file that survives an interrupt, and the newest file of a kind."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from kitctl.edge.environment import state_dir
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
        raise KitError(
            "file-unwritable",
            f"{path} cannot be written: {refused}",
            remedy="give a writable place with -o FILE",
            exit_code=Exit.USAGE,
        ) from refused


def _restore(path: Path, size: int | None) -> None:
    """Cut what a failed write left behind; a file that was not there (size ``None``) goes."""
    with suppress(OSError):
        if not path.is_file():
            return
        if size is None:
            path.unlink()
        elif path.stat().st_size > size:
            os.truncate(path, size)


def newest_result(folder: str, holds: str) -> str | None:
    """The newest ``.jsonl`` in ``folder`` whose first line holds the text ``holds``; ``None`` without one."""
    for path in sorted(Path(folder).glob("*.jsonl"), reverse=True):
        with path.open(encoding="utf-8") as lines:
            if holds in lines.readline():
                return str(path)
    return None
