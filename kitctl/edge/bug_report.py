"""Keep the traceback of a bug with the versions that made it."""

from __future__ import annotations

import platform
import traceback
from datetime import UTC, datetime
from pathlib import Path

from kitctl import __version__
from kitctl.edge.environment import state_dir


def write_bug_report(argv: list[str]) -> str:
    """Write the current exception's traceback into the state folder; returns the file's path."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    path = Path(state_dir()) / "bugs" / f"{now}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    head = f"kitctl {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
    command = argv[0] if argv else ""
    path.write_text(f"{head}command: {command}\n\n{traceback.format_exc()}", encoding="utf-8")
    return str(path)
