"""Which flags does one release of the engine take? The types of ``data/flags/<release>.json`` and their reader.

The tables are made by ``kitctl images lock`` from the release's own source (``kitctl.kit.flag_source``), so that
a plan can refuse an unknown, abbreviated, renamed or removed flag in milliseconds, without the engine.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from kitctl.errors import Exit, KitError
from kitctl.kit.near import near_name


class Takes(StrEnum):
    """What follows the flag: nothing, one value, one or no value, or one or more values."""

    NOTHING = "nothing"
    ONE = "one"
    OPTIONAL = "optional"
    MANY = "many"


class Flag(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One flag. ``choices`` is ``None`` when any value is taken or the source computes them while running.

    ``default`` is a JSON value; ``has_default`` tells a default of null from one that the source computes.
    ``type`` is ``str``, ``int``, ``float`` or the name of the engine's own converter. ``replaced_by`` is what
    the engine itself says to write instead; ``deprecated`` flags still work.
    """

    name: str
    aliases: tuple[str, ...] = ()
    takes: Takes = Takes.ONE
    type: str = "str"
    choices: tuple[str | int | float, ...] | None = None
    default: str | int | float | bool | list[str | int | float] | None = None
    has_default: bool = False
    required: bool = False
    deprecated: bool = False
    replaced_by: str | None = None


class FlagTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All flags of one release, in the source's order."""

    engine: str
    release: str
    flags: tuple[Flag, ...]

    def find(self, name: str) -> Flag | None:
        """The flag with exactly this name or alias; abbreviations are not names."""
        return next((flag for flag in self.flags if name == flag.name or name in flag.aliases), None)

    def names(self) -> tuple[str, ...]:
        """Every name and alias."""
        return tuple(name for flag in self.flags for name in (flag.name, *flag.aliases))

    def abbreviated(self, name: str) -> tuple[str, ...]:
        """The names that the engine's parser would take ``name`` as an abbreviation of."""
        return tuple(known for known in self.names() if known.startswith(name) and known != name)

    def near(self, name: str) -> str | None:
        """The known name closest to ``name``, or ``None``."""
        return near_name(name, self.names())


def read_flag_table(text: str, *, source: str) -> FlagTable:
    """The table in ``text`` (JSON). Raises KitError ``bad-flag-table`` (exit 2)."""
    try:
        return msgspec.json.decode(text, type=FlagTable)
    except msgspec.MsgspecError as broken:
        raise KitError(
            "bad-flag-table",
            f"{source}: {broken}",
            remedy="kitctl images lock",
            exit_code=Exit.USAGE,
        ) from broken


def write_flag_table(table: FlagTable) -> str:
    """The table as JSON text, one flag a line, so that a renewed table shows as a readable change."""
    rows = ",\n".join(f"    {msgspec.json.encode(flag).decode()}" for flag in table.flags)
    head = f'{{\n  "engine": "{table.engine}",\n  "release": "{table.release}",\n  "flags": [\n'
    return f"{head}{rows}\n  ]\n}}\n"
