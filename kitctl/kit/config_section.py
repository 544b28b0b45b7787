"""What stands at a path of a model's config.json? Tiny getters that name the path when it is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kitctl.errors import Exit, KitError
from kitctl.kit.json_text import parse_json


@dataclass(frozen=True, kw_only=True)
class Section:
    """One object of a config file: its values, the file's name and the dotted path to it."""

    values: Mapping[str, Any]
    source: str
    path: str = ""

    def whole(self, name: str) -> int:
        """A whole number that must be there."""
        found = self.whole_or_none(name)
        if found is None:
            raise self.wrong(name, "missing; a whole number is needed")
        return found

    def positive(self, name: str) -> int:
        """A whole number of at least 1 that must be there."""
        found = self.whole(name)
        if found < 1:
            raise self.wrong(name, f"{found} is below 1")
        return found

    def number_or_none(self, name: str) -> float | None:
        """A number, or ``None`` when absent or null."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(name, f"{value!r} is no number")
        return float(value)

    def whole_or_none(self, name: str) -> int | None:
        """A whole number, or ``None`` when absent or null."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(name, f"{value!r} is no whole number")
        return value

    def text_or_none(self, name: str) -> str | None:
        """A text, or ``None`` when absent or null."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, f"{value!r} is no text")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """A true or false value; ``default`` when absent or null."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(name, f"{value!r} is neither true nor false")
        return value

    def wholes_or_none(self, name: str) -> tuple[int, ...] | None:
        """A list of whole numbers, or ``None`` when absent or null."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or any(isinstance(v, bool) or not isinstance(v, int) for v in value):
            raise self.wrong(name, f"{value!r} is no list of whole numbers")
        return tuple(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; empty when absent or null."""
        value = self.values.get(name)
        if value is None:
            return ()
        if not isinstance(value, list) or any(not isinstance(v, str) for v in value):
            raise self.wrong(name, f"{value!r} is no list of texts")
        return tuple(value)

    def section_or_none(self, name: str) -> Section | None:
        """The object below ``name``, or ``None`` when absent or null."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.wrong(name, "is no object")
        return Section(values=value, source=self.source, path=self._dotted(name))

    def first(self, *names: str) -> str | None:
        """The first of ``names`` that is there and not null."""
        return next((name for name in names if self.values.get(name) is not None), None)

    def wrong(self, name: str, problem: str) -> KitError:
        """The error that names file, path and problem (``model-config``, exit 2)."""
        return KitError(
            "model-config",
            f"{self.source}: {self._dotted(name)}: {problem}",
            remedy=f"fetch the model's {self.source} again, or lock a revision whose file is whole",
            exit_code=Exit.USAGE,
        )

    def _dotted(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name


def read_config(text: str, *, source: str) -> Section:
    """The root of a config file. Raises KitError ``model-config`` when it is no JSON object."""
    try:
        tree = parse_json(text)
    except json.JSONDecodeError as broken:
        raise KitError(
            "model-config",
            f"{source} is no JSON: {broken}",
            remedy=f"fetch {source} again: a text that starts with '<' or 'version' is a page or an LFS pointer",
            exit_code=Exit.USAGE,
            evidence=(text[:80],),
        ) from broken
    root = Section(values=tree if isinstance(tree, dict) else {}, source=source)
    if not isinstance(tree, dict):
        raise root.wrong("$", "the file holds no object")
    return root
