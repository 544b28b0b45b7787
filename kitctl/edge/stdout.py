"""Standard output that cannot be written: a full disk, a quota, a device that fails."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kitctl.edge.signals import leave_closed_pipe
from kitctl.errors import Exit, KitError


@contextmanager
def writing_stdout() -> Iterator[None]:
    """Turn what standard output refuses in the block into KitError ``stdout-unwritable`` (exit 2).

    What it still holds is given up, so that later flushes are silent. A reader that went away stays BrokenPipeError.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as refused:
        leave_closed_pipe(sys.stdout)
        raise KitError(
            "stdout-unwritable",
            f"cannot write stdout: {refused.strerror or refused}",
            remedy="send the output to a disk with room, or into a pipe",
            exit_code=Exit.USAGE,
        ) from refused


def flush_stdout() -> None:
    """Write out what standard output still holds. Raises KitError ``stdout-unwritable`` (exit 2)."""
    with writing_stdout():
        sys.stdout.flush()


def end_stdout() -> None:
    """Write out what standard output still holds, or give it up: for the end of a command that failed already."""
    try:
        sys.stdout.flush()
    except OSError:
        leave_closed_pipe(sys.stdout)
