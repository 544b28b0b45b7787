"""Can the engine's user read a model's files? Docker mounts what only its owner may read without a word."""

from __future__ import annotations

import stat
from collections.abc import Sequence

from kitctl.finding import Finding, Severity
from kitctl.plan.types import PlannedModel

ENGINE_UID = 10001
_SHOWN = 3


def may_read(mode: int, *, owner: int, uid: int) -> bool:
    """Whether a process of ``uid`` without capabilities, root too, reads a file or lists and enters a folder.

    ``mode`` as in stat(2). Groups are left out of account: an image's user is in none of the host's.
    """
    wanted = 0o5 if stat.S_ISDIR(mode) else 0o4
    granted = mode >> 6 if owner == uid else mode
    return granted & wanted == wanted


def uid_of(user: str) -> int | None:
    """The number in an image's ``User`` (``10001:10001``, ``""`` is root); ``None`` for a name."""
    name = user.partition(":")[0]
    if not name:
        return 0
    return int(name) if name.isdecimal() else None


def check_read_access(model: PlannedModel, denied: Sequence[str], *, uid: int) -> Finding | None:
    """A finding when files of ``model`` are closed to the engine: the load would end with FileNotFoundError."""
    if not denied:
        return None
    rest = (f"and {len(denied) - _SHOWN} more",) if len(denied) > _SHOWN else ()
    return Finding(
        code="model-closed-to-engine",
        severity=Severity.BLOCK,
        cause=f"the engine runs as uid {uid} without capabilities and may not read all of {model.model}",
        evidence=(*denied[:_SHOWN], *rest),
        remedy=f"chmod -R o+rX {model.folder}",
        where=f"models.{model.role}",
    )
