"""How is a stack spelled as the argv of one SGLang release?

Settings of a stack keep their names from release to release; ``data/engine_flags.toml`` says which flag each
release knows them by. Flags are always written in full, since SGLang's parser would take abbreviations.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from enum import StrEnum
from typing import assert_never

import msgspec

from kitctl.errors import Exit, KitError
from kitctl.kit.stack import Algorithm, Graphs, Stack
from kitctl.plan.releases import is_within

FlagValue = str | int | float | bool
FlagTable = Mapping[str, FlagValue]


class Kind(StrEnum):
    """How a setting's value becomes words of the argv."""

    VALUE = "value"
    COUNT = "count"
    SWITCH = "switch"
    CHOICE = "choice"


class Spelling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The spelling of one setting in the releases from ``since`` up to ``until`` (exclusive)."""

    since: str | None = msgspec.field(name="from", default=None)
    until: str | None = None
    flag: str = ""
    choices: dict[str, tuple[str, ...]] = {}


class Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One setting of a stack and its spellings, oldest release first."""

    name: str
    kind: Kind
    spellings: tuple[Spelling, ...]
    path: str | None = None

    @property
    def stack_path(self) -> str:
        """The dotted path of the stack file that says it."""
        return self.path or f"engine.{self.name}"

    def flags(self) -> frozenset[str]:
        """Every flag that spells it, in any release."""
        words = [word for one in self.spellings for choice in one.choices.values() for word in choice]
        return frozenset(word for word in (*(one.flag for one in self.spellings), *words) if word[:2] == "--")


class Spellings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings in the order of the argv."""

    setting: tuple[Setting, ...]


def read_spellings(text: str) -> Spellings:
    """The table of ``data/engine_flags.toml``."""
    return msgspec.convert(tomllib.loads(text), Spellings)


def engine_argv(
    stack: Stack,
    *,
    spellings: Spellings,
    release: str,
    model_path: str,
    drafter_path: str | None,
    port: int,
    bind: str,
    overlay_flags: FlagTable | None = None,
    max_total_tokens: int | None = None,
) -> tuple[str, ...]:
    """The flags that launch ``stack`` on ``release``: settings in table order, then other flags by name.

    ``max_total_tokens`` is the cap that the memory fit asks for; a lower one of the stack wins. A flag of
    the stack wins over the overlay's, and ``false`` drops it. Raises KitError ``flag-given-twice`` when
    ``engine.flags`` repeats a setting, ``setting-without-flag`` when the release lacks a setting's flag.
    """
    values = setting_values(stack, model_path=model_path, drafter_path=drafter_path)
    values |= {"port": port, "bind": bind, "max_total_tokens": _lower(stack, max_total_tokens)}
    words: list[str] = []
    for setting in spellings.setting:
        words += _spell(setting, values[setting.name], release=release)
    _refuse_repeats(stack, frozenset(words))
    return (*words, *_spell_flags({**(overlay_flags or {}), **stack.engine.flags}, taken=frozenset(words)))


def setting_values(stack: Stack, *, model_path: str, drafter_path: str | None) -> dict[str, FlagValue | None]:
    """The version-neutral settings of a stack by the names that ``engine_flags.toml`` uses."""
    engine, drafter, parallel = stack.engine, stack.drafter, stack.parallel
    named: dict[str, FlagValue | None] = {
        name: getattr(engine, name) for name in engine.__struct_fields__ if name not in {"flags", "graphs"}
    }
    named |= {"tp": parallel.tp, "ep": parallel.ep, "pp": parallel.pp, "dp": parallel.dp}
    named |= {"model_path": model_path, "model_name": stack.serve.model_name or stack.model}
    named |= {"graphs": graphs_of(stack).value, "metrics": True}
    named |= {
        "algorithm": drafter.algorithm.value if drafter else None,
        "drafter_path": drafter_path if drafter else None,
        "block_size": drafter.block_size if drafter and drafter.algorithm is Algorithm.DFLASH else None,
        "draft_window": drafter.draft_window if drafter else None,
        "draft_attention_backend": drafter.attention_backend if drafter else None,
    }
    return named


def graphs_of(stack: Stack) -> Graphs:
    """The CUDA graphs that the stack captures: as set, else ``decode`` under DFLASH and ``on`` without."""
    if stack.engine.graphs is not None:
        return stack.engine.graphs
    return Graphs.DECODE if stack.drafter and stack.drafter.algorithm is Algorithm.DFLASH else Graphs.ON


def flag_name(key: str) -> str:
    """``disable_custom_all_reduce``, ``disable-custom-all-reduce`` or the flag itself -> the flag."""
    return f"--{key.lstrip('-').replace('_', '-')}"


def _lower(stack: Stack, cap: int | None) -> int | None:
    given = [count for count in (stack.engine.max_total_tokens, cap) if count is not None]
    return min(given, default=None)


def _spell(setting: Setting, value: FlagValue | None, *, release: str) -> list[str]:
    if value is None or value is False:
        return []
    spelling = _spelling_of(setting, release)
    match setting.kind:
        case Kind.VALUE:
            return [spelling.flag, _word(value)]
        case Kind.COUNT:
            return [spelling.flag, _word(value)] if value != 1 else []
        case Kind.SWITCH:
            return [spelling.flag]
        case Kind.CHOICE:
            return list(spelling.choices[str(value)])
        case _:
            assert_never(setting.kind)


def _spelling_of(setting: Setting, release: str) -> Spelling:
    for spelling in setting.spellings:
        if is_within(release, since=spelling.since, until=spelling.until):
            return spelling
    raise KitError(
        "setting-without-flag",
        f"SGLang {release} has no flag for the setting {setting.name}",
        remedy=f"leave {setting.name} out of the stack, or choose another release with image.release",
        exit_code=Exit.REFUSED,
    )


def _refuse_repeats(stack: Stack, spelled: frozenset[str]) -> None:
    for key in stack.engine.flags:
        if flag_name(key) in spelled:
            raise KitError(
                "flag-given-twice",
                f"engine.flags repeats {flag_name(key)}, which a setting of stack {stack.name} already gives",
                remedy=f"remove {key} from engine.flags and set it by its setting",
                exit_code=Exit.USAGE,
            )


def _spell_flags(flags: FlagTable, *, taken: frozenset[str]) -> list[str]:
    words: list[str] = []
    for key, value in flags.items():
        if value is False or flag_name(key) in taken:
            continue
        words += [flag_name(key)] if value is True else [flag_name(key), _word(value)]
    return words


def _word(value: FlagValue) -> str:
    return repr(value) if isinstance(value, float) else str(value)
