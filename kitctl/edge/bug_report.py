"""Keep the traceback of a bug with the versions that made it."""

from __future__ import annotations

import platform
import tempfile
import traceback
from datetime import UTC, datetime
from pathlib import Path

from kitctl import __version__
from kitctl.edge.environment import state_dir
from kitctl.errors import KitError


def write_bug_report(argv: list[str]) -> str:
    """Write the current exception's traceback into the state folder, else a temporary one; returns the path."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    head = f"kitctl {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
    command = argv[0] if argv else ""
    text = f"{head}command: {command}\n\n{traceback.format_exc()}"
    try:
        path = Path(state_dir()) / "bugs" / f"{now}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except (OSError, KitError):
        with tempfile.NamedTemporaryFile("w", prefix="kitctl-bug-", suffix=".txt", delete=False) as out:
            out.write(text)
        return out.name
    return str(path)
