"""What does a rule of the linter say? The code of its words, the place, what was seen, and the words' values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Hit:
    """One fault of one object."""

    code: str
    where: str
    seen: tuple[str, ...] = ()
    values: Mapping[str, object] = field(default_factory=dict)
