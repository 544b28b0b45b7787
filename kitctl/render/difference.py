"""In what do two plans differ?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def differences(running: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """One line a field of ``decisive`` that differs; of an argv only the words that do."""
    lines: list[str] = []
    for field in wanted:
        before, after = running.get(field), wanted[field]
        if before == after:
            continue
        if isinstance(before, list) and isinstance(after, list):
            lines += _list_lines(field, before, after)
        elif isinstance(before, Mapping) and isinstance(after, Mapping):
            lines += _map_lines(field, before, after)
        else:
            lines.append(f"{field}: {before} -> {after}")
    return tuple(lines)


def _list_lines(field: str, before: Sequence[Any], after: Sequence[Any]) -> list[str]:
    if field != "argv":
        return [f"{field}: {before} -> {after}"]
    old, new = argv_flags(before), argv_flags(after)
    return _map_lines(field, old, new) or [f"{field}: order of the flags"]


def _map_lines(field: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    names = [*before, *(name for name in after if name not in before)]
    return [
        f"{field} {name}: {before.get(name, 'not set')} -> {after.get(name, 'not set')}"
        for name in names
        if before.get(name) != after.get(name)
    ]


def argv_flags(argv: Sequence[str]) -> dict[str, str]:
    """Flag to value (``set`` for a bare switch)."""
    flags: dict[str, str] = {}
    name = ""
    for word in argv:
        if word.startswith("--"):
            name = word
            flags[name] = "set"
        elif name:
            flags[name] = word if flags[name] == "set" else f"{flags[name]} {word}"
    return flags
