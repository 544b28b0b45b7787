"""Append entries to a journal and see them on disk; cut off what a kill left half written."""

from __future__ import annotations

import os
from pathlib import Path

from kitctl.campaign.events import Entry, Event
from kitctl.campaign.journal import Journal, read_journal, seal
from kitctl.campaign.state import fold, step
from kitctl.edge.files import writing
from kitctl.edge.runs import now_utc


def load_journal(path: str) -> Journal:
    """What the file holds; empty when there is none. Raises KitError ``journal-broken`` (exit 2)."""
    place = Path(path)
    return read_journal(place.read_bytes(), name=path) if place.is_file() else Journal()


class JournalFile:
    """A journal open for appending, and its ``state``. Only one process may hold it: take its lock first."""

    def __init__(self, path: str) -> None:
        self._path = path
        found = load_journal(path)
        self._sum, self._count = found.last_sum, len(found.entries)
        self.entries = list(found.entries)
        self.state = fold(found.entries)
        with writing(path):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            if found.torn_bytes:
                os.ftruncate(self._handle, found.good_bytes)
                os.fsync(self._handle)

    def append(self, event: Event) -> Entry:
        """Write one entry and see it on disk. Raises KitError ``file-unwritable`` (exit 2)."""
        at = now_utc()
        line, digest = seal(event, at=at, number=self._count + 1, last_sum=self._sum)
        with writing(self._path):
            view = memoryview(line)
            while view:
                view = view[os.write(self._handle, view) :]
            os.fsync(self._handle)
        self._sum, self._count = digest, self._count + 1
        entry = Entry(n=self._count, at=at, event=event)
        self.entries.append(entry)
        self.state = step(self.state, entry)
        return entry

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)
