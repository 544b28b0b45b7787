"""What does SGLang accept without a word, or refuse only after minutes? The rules of ``data/engine_rules.yaml``.

A rule is a record: code, releases, condition, cause, remedy, source. The condition reads the names of
``rule_values``; cause and remedy are texts with those names in braces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kitctl.finding import Finding, Severity
from kitctl.kit.drafter_facts import DrafterFacts
from kitctl.kit.flag_table import FlagTable
from kitctl.kit.model_facts import ModelFacts
from kitctl.kit.stack import Stack
from kitctl.kit.typed import read_typed
from kitctl.plan.conditions import Condition, compile_condition, holds, value_of
from kitctl.plan.flag_names import FlagChange, check_flag_names
from kitctl.plan.releases import is_within
from kitctl.plan.rule_values import rule_values


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule. ``let`` names values computed for the texts; ``about`` is ``engine`` or ``drafter``."""

    code: str
    severity: Severity
    when: str
    cause: str
    remedy: str
    source: str
    where: str | None = None
    since: str | None = None
    until: str | None = None
    about: str = "engine"
    let: dict[str, str] = {}


class HookedTargets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Architectures that gained the layer-capture hook of DFLASH in the release ``since``."""

    since: str
    architectures: tuple[str, ...]


class RuleFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``data/engine_rules.yaml``."""

    rules: tuple[Rule, ...]
    flags: tuple[FlagChange, ...]
    dflash_targets: tuple[HookedTargets, ...]


@dataclass(frozen=True, kw_only=True)
class ReadyRule:
    """A rule with its conditions compiled."""

    rule: Rule
    when: Condition
    let: Mapping[str, Condition]


@dataclass(frozen=True, kw_only=True)
class RuleBook:
    """All rules, ready to be judged."""

    rules: tuple[ReadyRule, ...]
    flags: tuple[FlagChange, ...]
    dflash_targets: tuple[HookedTargets, ...]


def read_rules(text: str, *, source: str = "engine_rules.yaml") -> RuleBook:
    """The rule book. Raises KitError when the file or a condition in it is wrong (exit 2)."""
    from kitctl.kit.yaml_reader import read_yaml

    found = read_typed(read_yaml(text, source=source), RuleFile, source_of=lambda path: source)
    return RuleBook(
        rules=tuple(_ready(rule, source) for rule in found.rules),
        flags=found.flags,
        dflash_targets=found.dflash_targets,
    )


def check_rules(
    stack: Stack,
    *,
    book: RuleBook,
    release: str,
    argv: tuple[str, ...] = (),
    archs: tuple[str, ...] = (),
    model: ModelFacts | None = None,
    drafter: DrafterFacts | None = None,
    environment: Mapping[str, str] | None = None,
    gpu_count: int | None = None,
    links: str | None = None,
    flag_table: FlagTable | None = None,
) -> tuple[Finding, ...]:
    """All findings for one stack on one release, in the order of the file, then flags.

    ``environment`` is the container's (default: the stack's own), ``gpu_count`` the GPUs reserved, ``links`` the
    topology class (``pcie``, ``nvlink-full`` ...). What is not handed in is unknown: its rules stay silent.
    """
    surroundings = dict(stack.environment if environment is None else environment)
    values = rule_values(
        stack,
        release=release,
        argv=argv,
        archs=archs,
        environment=surroundings,
        model=model,
        drafter=drafter,
        gpu_count=gpu_count,
        links=links,
    )
    values["hooked"] = hooked_targets(book, release)
    return (
        *(found for ready in book.rules if (found := judge_rule(ready, values)) is not None),
        *check_flag_names(argv, changes=book.flags, table=flag_table, release=release),
    )


def judge_rule(ready: ReadyRule, values: Mapping[str, Any]) -> Finding | None:
    """The finding of one rule, or ``None`` when it does not hold or not apply (bounded, and the release unknown)."""
    rule, release = ready.rule, values["release"]
    if not release and (rule.since or rule.until):
        return None
    if not is_within(release, since=rule.since, until=rule.until):
        return None
    if not holds(ready.when, values):
        return None
    texts = _Texts({**values, **{name: value_of(condition, values) for name, condition in ready.let.items()}})
    return Finding(
        code=rule.code,
        severity=rule.severity,
        cause=rule.cause.format_map(texts),
        remedy=rule.remedy.format_map(texts),
        evidence=(f"rule for SGLang {release or 'of any release'}: {rule.source}",),
        where=rule.where,
    )


def hooked_targets(book: RuleBook, release: str) -> tuple[str, ...]:
    """Target architectures whose hidden states DFLASH can capture in this release."""
    return tuple(
        name
        for group in book.dflash_targets
        if is_within(release, since=group.since)
        for name in group.architectures
    )


def _ready(rule: Rule, source: str) -> ReadyRule:
    place = f"{source}: {rule.code}"
    return ReadyRule(
        rule=rule,
        when=compile_condition(rule.when, source=place),
        let={name: compile_condition(text, source=place) for name, text in rule.let.items()},
    )


class _Texts(dict[str, Any]):
    """Values as a sentence writes them."""

    def __getitem__(self, name: str) -> str:
        value = super().__getitem__(name)
        return ", ".join(str(part) for part in value) if isinstance(value, tuple) else str(value)
