"""One folder a run in the state folder: the rendered project, the record, the engine's log."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kitctl.edge.environment import state_dir
from kitctl.edge.files import write_atomic, writing
from kitctl.edge.run_metrics import write_metrics
from kitctl.errors import KitError
from kitctl.watch.run_record import RunRecord, read_record, record_text

RECORD = "record.json"
ENGINE_LOG = "engine.log"
_HALF = re.compile(r"\..+\.[a-z0-9_]{8}")
_HALF_AGE_S = 0.5


def now_utc() -> str:
    """The time now: UTC, ISO 8601, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_run_id(project: str) -> str:
    """A fresh run id that sorts by time."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{stamp}-{project}-{secrets.token_hex(2)}"


def run_folder(run_id: str) -> str:
    """The run's folder (not made)."""
    return str(Path(state_dir()) / "runs" / run_id)


def write_project(folder: str, files: dict[str, str]) -> None:
    """Write the rendered files; the folder is the user's alone (it may name a secret)."""
    place = Path(folder)
    with writing(folder):
        place.mkdir(parents=True, exist_ok=True)
        place.chmod(0o700)
    for name, text in files.items():
        write_atomic(str(place / name), text)


def save_record(record: RunRecord) -> None:
    """Write the record into its folder, atomically; its numbers for monitoring beside it, where that is possible."""
    write_atomic(str(Path(record.folder) / RECORD), record_text(record))
    with suppress(KitError):
        write_metrics(record)


def has_record(folder: str) -> bool:
    """Whether the run's record has been written."""
    return (Path(folder) / RECORD).is_file()


def load_record(run_id: str) -> RunRecord | None:
    """The record of a run, or ``None`` when there is none that can be read."""
    path = Path(run_folder(run_id)) / RECORD
    try:
        return read_record(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, msgspec.DecodeError):
        return None


def list_records() -> tuple[RunRecord, ...]:
    """All readable records, newest first, whatever the clock said when they were made."""
    root = Path(state_dir()) / "runs"
    names = (
        sorted((path.name for path in root.glob("*") if path.is_dir()), reverse=True) if root.is_dir() else []
    )
    records = [record for record in map(load_record, names) if record is not None]
    return tuple(sorted(records, key=lambda record: record.order, reverse=True))


def next_order() -> int:
    """The place of a new run behind all others: the clock may have been set back since."""
    return 1 + max((record.order for record in list_records()), default=0)


def latest_record(project: str) -> RunRecord | None:
    """The newest record of a project, or ``None``."""
    return next((record for record in list_records() if record.project == project), None)


def sweep_halves(project: str) -> None:
    """Remove what a killed process left beside the files of the project's runs: written, and never renamed."""
    root = Path(state_dir()) / "runs"
    for path in (*root.glob(f"*-{project}-*/.*"), *root.glob(f"*-{project}-*/metrics/.*")):
        with suppress(OSError):
            if _HALF.fullmatch(path.name) and abs(time.time() - path.stat().st_mtime) > _HALF_AGE_S:
                path.unlink()


class LogCopy:
    """The run's own copy of the engine's log; without a folder (no record) nothing is kept.

    A disk that is full ends the copy, not the start: ``is_whole`` is false from then on, and ``say`` is told once.
    """

    def __init__(self, folder: str, say: Callable[[str], None]) -> None:
        self._folder, self._say = folder, say
        self.is_whole = bool(folder)

    def append(self, line: str) -> None:
        """Add one line, as long as all before it were kept."""
        if not self.is_whole:
            return
        try:
            with (Path(self._folder) / ENGINE_LOG).open("a", encoding="utf-8") as out:
                out.write(f"{line}\n")
        except OSError as refused:
            self.is_whole = False
            self._say(f"  the engine's log is not kept any more: {refused.strerror}")


def keep_log(folder: str, lines: Iterable[str]) -> None:
    """Write the run's copy of the engine's log anew; nothing when the run's folder is gone or cannot be written."""
    if not Path(folder).is_dir():
        return
    with suppress(OSError), (Path(folder) / ENGINE_LOG).open("w", encoding="utf-8") as out:
        out.writelines(f"{line}\n" for line in lines)


def read_log(folder: str) -> str:
    """The run's copy of the engine's log; empty when there is none."""
    path = Path(folder or "/nonexistent") / ENGINE_LOG
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
