"""Which files below a folder may a user not read?"""

from __future__ import annotations

import os
from pathlib import Path

from kitctl.plan.read_access import may_read


def closed_below(folder: str, *, uid: int) -> tuple[str, ...]:
    """Paths below ``folder``, itself too, that ``uid`` may not read, sorted; links are followed to their files.

    What is missing or dangling is left to the store's own checks.
    """
    places = [folder]
    for parent, folders, files in os.walk(folder):
        places += [str(Path(parent, name)) for name in (*folders, *files)]
    return tuple(sorted(place for place in places if _is_closed(place, uid)))


def _is_closed(place: str, uid: int) -> bool:
    try:
        seen = Path(place).stat()
    except OSError:
        return False
    return not may_read(seen.st_mode, owner=seen.st_uid, uid=uid)
