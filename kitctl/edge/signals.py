"""How kitctl ends when it is told to: SIGTERM, Ctrl-C, a reader that went away."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TextIO

_ENDING = (signal.SIGINT, signal.SIGTERM)


def interrupt_on_sigterm() -> None:
    """From now on SIGTERM raises KeyboardInterrupt in the main thread, unless the caller had it ignored."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt


def forget_unhandled_interrupt() -> None:
    """Let the process end with its own exit code after a KeyboardInterrupt that was caught.

    CPython notes an interrupt that leaves code run from a string, as dataclasses make their methods while they are
    imported, and kills itself with SIGINT at its end even when the interrupt was caught further out (measured, CPython
    3.11.7: exit code -2 instead of 130). The next code run from a string clears the note (Python/pythonrun.c,
    run_eval_code_obj).
    """
    exec("")


def outlive_terminal() -> None:
    """From now on a terminal or ssh connection that goes away does not end this process."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM are ignored while the block runs. Only for work that is sure to end soon."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leave_closed_pipe(stream: TextIO) -> None:
    """Send what ``stream`` still holds nowhere, so that the interpreter's last flush does not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def open_closed_streams() -> None:
    """Give stdout and stderr somewhere to go when the caller closed them."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115,PTH123  # open until the process ends
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115,PTH123  # open until the process ends
