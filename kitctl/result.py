"""What does a command give back to the door that prints it?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kitctl.errors import Exit


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
