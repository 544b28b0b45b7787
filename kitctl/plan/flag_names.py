"""Does the pinned engine know each flag of the argv, by its full name and with such a value?

SGLang's parser takes abbreviations, so a misspelt flag may be read as another one; here only full names count.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kitctl.finding import Finding, Severity
from kitctl.kit.flag_table import Flag, FlagTable, Takes

GivenFlag = tuple[str, tuple[str, ...]]


class FlagChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the table of one release cannot say of a flag: that it was removed or that nothing reads it."""

    name: str
    note: str
    instead: str
    has_no_effect: bool = False


def check_flag_names(
    argv: tuple[str, ...], *, changes: tuple[FlagChange, ...], table: FlagTable | None, release: str
) -> tuple[Finding, ...]:
    """One finding for each flag that is unknown, abbreviated, removed, deprecated, without effect or ill-valued.

    Without a table only flags without effect are told, and that the names were not checked.
    """
    known = {change.name: change for change in changes}
    given = split_flags(argv)
    found = [_idle(known[name]) for name, _ in given if name in known and known[name].has_no_effect]
    if table is None:
        return (*found, *([_unchecked(release)] if given else []))
    for name, values in given:
        found += _judge(name, values, table=table, change=known.get(name))
    return (*found, *_given_twice(given, table))


def split_flags(argv: tuple[str, ...]) -> list[GivenFlag]:
    """Each flag of the argv with the words that follow it (``--x=1`` is ``--x`` and ``1``)."""
    given: list[GivenFlag] = []
    for word in argv:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            given.append((name, (value,) if equals else ()))
        elif given:
            name, values = given[-1]
            given[-1] = (name, (*values, word))
    return given


def _judge(
    name: str, values: tuple[str, ...], *, table: FlagTable, change: FlagChange | None
) -> Iterator[Finding]:
    flag = table.find(name)
    if flag is None:
        yield _not_there(name, table, change)
        return
    if flag.deprecated:
        yield _deprecated(flag, table)
    problem = _value_problem(flag, values)
    if problem:
        cause, remedy = problem
        yield _finding("flag-value", f"{name} of SGLang {table.release} {cause}", remedy, name)


def _not_there(name: str, table: FlagTable, change: FlagChange | None) -> Finding:
    if change is not None:
        return _finding(
            "flag-removed",
            f"SGLang {table.release} has no {name}: {change.note}",
            f"write {change.instead}" if change.instead.startswith("--") else change.instead,
            name,
        )
    longer = table.abbreviated(name)
    if longer:
        which = "would be read as" if len(longer) == 1 else "is ambiguous between"
        return _finding(
            "flag-abbreviated",
            f"{name} is no flag of SGLang {table.release}, but its parser takes abbreviations: it {which} "
            f"{', '.join(longer)}",
            f"write the full name: {' or '.join(longer)}",
            name,
        )
    near = table.near(name)
    return _finding(
        "flag-unknown",
        f"SGLang {table.release} has no flag {name}; it would exit with code 2",
        f"did you mean {near}? Else remove {name}" if near else f"remove {name}",
        name,
    )


def _value_problem(flag: Flag, values: tuple[str, ...]) -> tuple[str, str] | None:
    if flag.takes is Takes.NOTHING:
        return (f"takes no value, not {values[0]!r}", "remove the value") if values else None
    if not values:
        return ("needs a value", f"write {flag.name} VALUE") if flag.takes is Takes.ONE else None
    if flag.takes in (Takes.ONE, Takes.OPTIONAL) and len(values) > 1:
        return f"takes one value, not {len(values)}", f"remove {' '.join(values[1:])}"
    for value in values:
        if flag.choices is not None and value not in [str(choice) for choice in flag.choices]:
            return f"does not take {value!r}", f"choose one of {', '.join(map(str, flag.choices))}"
        if not _reads_as(value, flag.type):
            return f"needs a value of type {flag.type}, not {value!r}", f"write {flag.name} with a number"
    return None


def _reads_as(value: str, kind: str) -> bool:
    reader = {"int": int, "float": float}.get(kind)
    if reader is None:
        return True
    try:
        reader(value)
    except ValueError:
        return False
    return True


def _deprecated(flag: Flag, table: FlagTable) -> Finding:
    instead = f"write {flag.replaced_by}" if flag.replaced_by else f"remove {flag.name}"
    return Finding(
        code="flag-deprecated",
        severity=Severity.WARN,
        cause=f"{flag.name} still works in SGLang {table.release}, but is deprecated and goes in a later release",
        remedy=instead,
        where=f"argv.{flag.name}",
    )


def _given_twice(given: list[GivenFlag], table: FlagTable) -> Iterator[Finding]:
    seen: set[str] = set()
    for name, _ in given:
        flag = table.find(name)
        known = flag.name if flag else name
        if known in seen:
            cause = f"{known} stands twice in the argv; the engine takes the last and ignores the others"
            yield _finding("flag-repeated", cause, f"keep one {known}", name)
        seen.add(known)


def _idle(change: FlagChange) -> Finding:
    return Finding(
        code="flag-without-effect",
        severity=Severity.WARN,
        cause=f"{change.name} has no effect: {change.note}",
        remedy=change.instead,
        where=f"argv.{change.name}",
    )


def _unchecked(release: str) -> Finding:
    return Finding(
        code="flags-not-checked",
        severity=Severity.NOTE,
        cause=f"the flags were not held against SGLang {release or 'of an own image'}: no flag table of it is here",
        remedy="kitctl images lock writes the table of a pinned release; kitctl check asks the engine itself",
    )


def _finding(code: str, cause: str, remedy: str, name: str) -> Finding:
    return Finding(code=code, severity=Severity.BLOCK, cause=cause, remedy=remedy, where=f"argv.{name}")
