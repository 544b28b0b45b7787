"""Who still needs a model's files?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from kitctl.errors import Exit, KitError


def holders_of(
    folder: PurePosixPath, *, mounts: Sequence[tuple[str, str]], is_locked: bool, stacks: Sequence[str]
) -> tuple[str, ...]:
    """A line for each: running containers that mount ``folder`` (or a part or parent of it), the lock, stacks.

    ``mounts``: container name and host folder.
    """
    lines = [
        f"the running container {name} mounts {path}" for name, path in mounts if _overlaps(folder, path)
    ]
    lines += ["models.lock names it"] if is_locked else []
    lines += [f"stacks use it: {', '.join(sorted(stacks))}"] if stacks else []
    return tuple(lines)


def _overlaps(folder: PurePosixPath, other: str) -> bool:
    path = PurePosixPath(other)
    return folder.is_relative_to(path) or path.is_relative_to(folder)


def require_no_holder(name: str, holders: tuple[str, ...]) -> None:
    """Raises KitError ``model-in-use`` (exit 3) when somebody needs the model."""
    if holders:
        raise KitError(
            "model-in-use",
            f"{name} is still needed",
            evidence=holders,
            remedy=f"take down what runs (kitctl down); to remove it all the same: kitctl models rm --force {name}",
            exit_code=Exit.REFUSED,
        )
