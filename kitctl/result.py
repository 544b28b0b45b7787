"""What does a command give back to the door that prints it?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kitctl.errors import Exit

_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, kw_only=True)
class Result:
    """A command's outcome.

    ``data`` is the versioned JSON object that ``--json`` prints (its ``schema`` names the version); ``lines``
    the same for a person; ``stream`` lines that come while they happen (logs, watch), printed one by one.
    ``records``: when given, ``--json`` prints each as one line (JSON Lines) in place of ``data``.
    """

    data: Mapping[str, Any]
    lines: tuple[str, ...] = ()
    exit: Exit = Exit.OK
    records: tuple[Mapping[str, Any], ...] | None = None
    stream: Iterator[str] | None = field(default=None, compare=False)


def shown(line: str) -> str:
    """The line for a terminal: what would steer it (escapes, control and bidi characters) is written out, as \\x1b.

    What a log or a host says is printed, and must not be able to move the cursor or set a title. Tabs and line breaks
    stay.
    """
    return _STEERING.sub(lambda one: one[0].encode("unicode_escape").decode("ascii"), line)


@dataclass(frozen=True, kw_only=True)
class Context:
    """What every command is handed by the door: where the kit is, which engine, and how to talk.

    ``say`` writes one line of progress to the person (stderr); it is silent with ``--quiet``.
    ``kit_dir`` and ``engine`` are the values of ``--kit`` and ``--host``, ``None`` when not given.
    """

    say: Callable[[str], None]
    kit_dir: str | None = None
    engine: str | None = None
    is_terminal: bool = False
    as_json: bool = False

    @property
    def tell_every_s(self) -> float:
        """Seconds between two lines of progress: a person reads along, a log file need not be filled."""
        return 5.0 if self.is_terminal else 30.0
