"""What time is it?"""

from __future__ import annotations

import time
from datetime import UTC, datetime


def monotonic_s() -> float:
    """A clock that never steps, for measuring."""
    return time.monotonic()


def sleep_s(seconds: float) -> None:
    """Do nothing for a while."""
    time.sleep(seconds)


def utc_date() -> str:
    """Today in UTC, ``2026-11-29``."""
    return datetime.now(UTC).date().isoformat()
