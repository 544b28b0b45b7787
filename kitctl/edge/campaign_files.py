"""Where campaigns and searches lie: a folder each in the state folder, kept when one is begun anew."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

from kitctl.edge.environment import state_dir
from kitctl.edge.files import writing

JOURNAL = "journal.jsonl"


def campaign_folder(name: str, *, kind: str = "campaigns") -> str:
    """The folder of a campaign (or, with ``kind`` ``searches``, of a search); not made."""
    return str(Path(state_dir()) / kind / name)


def journal_path(folder: str) -> str:
    """The journal in it."""
    return str(Path(folder) / JOURNAL)


def has_journal(folder: str) -> bool:
    """Whether something was begun there."""
    return Path(journal_path(folder)).is_file()


def campaign_names(*, kind: str = "campaigns") -> tuple[str, ...]:
    """Names of all campaigns that were begun here, the one last written to first."""
    found = (Path(state_dir()) / kind).glob(f"*/{JOURNAL}")
    newest_first = sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)
    return tuple(path.parent.name for path in newest_first)


def set_aside(folder: str) -> str:
    """Rename the folder of an earlier campaign, so that its name is free; its new place."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    kept = f"{folder}.{stamp}"
    with writing(kept):
        Path(folder).rename(kept)
    return kept


def is_file(path: str) -> bool:
    """Whether there is such a file."""
    return Path(path).is_file()


def stem(path: str) -> str:
    """The file's name without folder and ending."""
    return Path(path).stem


def file_sha256(path: str) -> str:
    """The SHA-256 of a file's bytes; empty when it cannot be read."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""
