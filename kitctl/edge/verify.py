"""Verify one model where it lies: quick by looks, deep by every hash."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kitctl.edge.attest import Attestations, deep_verify
from kitctl.edge.gauge import Gauge, telling
from kitctl.edge.store_files import locate_model, quick_verify
from kitctl.kit.models_lock import ModelEntry
from kitctl.store.place import ModelPlace, Presence
from kitctl.store.verdict import FileVerdict, findings_of
from kitctl.store.verify_report import VerifyReport


@dataclass(frozen=True, kw_only=True)
class Verified:
    """Where the model lies, and what was found."""

    place: ModelPlace
    report: VerifyReport

    @property
    def ok(self) -> bool:
        """Whether nothing wrong was found."""
        return self.report.ok


def verify_model(
    entry: ModelEntry,
    store_dir: str,
    *,
    deep: bool,
    say: Callable[[str], None],
    fresh: bool = False,
    every_s: float = 30.0,
) -> Verified:
    """Quick always; ``deep`` hashes every file that the quick look let pass and that is not proven yet."""
    begun = time.monotonic()
    place = locate_model(entry, store_dir)
    verdicts = quick_verify(entry, place)
    hashed = 0
    if deep:
        named = {verdict.path for verdict in verdicts}
        hashed, more = _hash_rest(place, named, say=say, fresh=fresh, every_s=every_s)
        verdicts = (*verdicts, *more)
    report = VerifyReport(
        repo=entry.repo,
        commit=entry.commit,
        folder=str(place.host_dir),
        file_count=len(entry.files),
        size_bytes=entry.size_bytes or 0,
        hashed_bytes=hashed,
        seconds=time.monotonic() - begun,
        verdicts=tuple(sorted(verdicts, key=lambda verdict: verdict.path)),
        findings=findings_of(entry, place, verdicts),
    )
    return Verified(place=place, report=report)


def _hash_rest(
    place: ModelPlace, named: set[str], *, say: Callable[[str], None], fresh: bool, every_s: float
) -> tuple[int, tuple[FileVerdict, ...]]:
    attestations = Attestations()
    files = [
        (seen.file, Path(place.host_dir / seen.file.path))
        for seen in place.seen
        if seen.presence in (Presence.WHOLE, Presence.OUTSIDE) and seen.file.path not in named
    ]
    todo = [(f, path) for f, path in files if fresh or not attestations.is_proven(f, path)]
    gauge = Gauge(f"{place.repo}: verifying", sum(file.size_bytes for file, _ in todo))
    with telling(gauge.line, say, every_s=every_s):
        found = deep_verify(
            todo, attestations=attestations, came=gauge.came, stop=threading.Event(), fresh=fresh
        )
    return gauge.came_bytes, found
