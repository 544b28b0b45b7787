"""``docs/codes.md`` holds every code that kitctl can print: those in its source, and those of its books of findings."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from kitctl_process import KIT

from kitctl.errors import Exit

PAGE = KIT / "docs" / "codes.md"
SOURCES = sorted((KIT / "kitctl").rglob("*.py"))
MAKERS = {"KitError", "Finding", "Refuse"}
NOTHING: Mapping[str, ast.expr] = MappingProxyType({})
CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")
BOOKS = {
    "host_findings.yaml": ("findings", "doctor, plan, up"),
    "engine_rules.yaml": ("rules", "plan, check, up"),
    "kubernetes_rules.yaml": ("findings", "render --to kubernetes, lint"),
    "failures.yaml": ("failures", "diagnose, up"),
}
HEAD = """# Every code

Each error, finding and diagnosis of kitctl has a code that does not change, in what it prints and as `code` with
`--json`. Here are all of them, made from the source and its books by `pytest tests/docs/test_codes.py --accept`.
Words in braces are filled in.

An **error** ends a command with the exit code named. A **finding** blocks (exit 3; `--skip CODE` overrules), warns, or
is worth a note. A **diagnosis** is read from a failed engine's log. A **hole** is a cell of a campaign's table. What
only the case itself can tell is left out here and stands in what is printed.

| code | is | cause | remedy | where |
|---|---|---|---|---|
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One code as the page tells it."""

    code: str
    kind: str
    cause: str
    remedy: str
    where: str


Given = Mapping[str, ast.expr]
"""What a call of a helper gives for each of its parameters."""


def text_of(node: ast.expr | None, given: Given = NOTHING) -> str:
    """A text in the source with its placeholders in braces; empty for what only a run can tell."""
    if isinstance(node, ast.Name) and node.id in given:
        return text_of(given[node.id])
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [
            str(part.value) if isinstance(part, ast.Constant) else filled_in(part, given)
            for part in node.values
        ]
        return "".join(parts)
    if isinstance(node, ast.IfExp):
        return text_of(node.body, given) or text_of(node.orelse, given)
    return ""


def given_for(node: ast.expr | None, given: Given) -> ast.expr | None:
    """What a helper's parameter is at the call; every other expression is itself."""
    return given.get(node.id, node) if isinstance(node, ast.Name) else node


def filled_in(part: ast.expr, given: Given) -> str:
    """A placeholder of a text: its literal, where the call of a helper gives one, else its name in braces."""
    value = part.value if isinstance(part, ast.FormattedValue) else part
    literal = text_of(value, given) if isinstance(value, ast.Name) and value.id in given else ""
    return literal or "{" + placeholder(part) + "}"


def placeholder(part: ast.expr) -> str:
    """A short name for what is filled in."""
    value = part.value if isinstance(part, ast.FormattedValue) else part
    names = [
        one.attr if isinstance(one, ast.Attribute) else one.id
        for one in ast.walk(value)
        if isinstance(one, ast.Attribute | ast.Name)
    ]
    return names[0].strip("_") if names else "..."


def argument(call: ast.Call, name: str, place: int) -> ast.expr | None:
    named = {word.arg: word.value for word in call.keywords}
    return named.get(name) or (call.args[place] if len(call.args) > place else None)


def kind_of(call: ast.Call, maker: str, given: Given = NOTHING) -> str:
    if maker == "KitError":
        found = given_for(argument(call, "exit_code", 9), given)
        name = found.attr if isinstance(found, ast.Attribute) else ""
        return f"error, exit {int(Exit[name])}" if name in Exit.__members__ else "error"
    found = given_for(argument(call, "severity", 9), given)
    if isinstance(found, ast.Attribute) and found.attr in ("BLOCK", "WARN", "NOTE"):
        return f"finding, {found.attr.lower()}"
    return "finding"


def codes_of(node: ast.expr | None) -> list[str]:
    """The codes that an expression may be."""
    if isinstance(node, ast.IfExp):
        return [*codes_of(node.body), *codes_of(node.orelse)]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    return []


def rows_in(path: Path) -> list[Row]:
    """Codes that a module makes itself, and those that it hands to a helper of its own which makes them."""
    tree = ast.parse(path.read_text())
    where = str(path.relative_to(KIT / "kitctl")).removesuffix(".py")
    rows, helpers = [], helpers_in(tree)
    for call in [one for one in ast.walk(tree) if isinstance(one, ast.Call)]:
        maker = (
            call.func.id
            if isinstance(call.func, ast.Name)
            else call.func.attr
            if isinstance(call.func, ast.Attribute)
            else ""
        )
        if maker in MAKERS:
            cause, remedy = argument(call, "cause", 1), argument(call, "remedy", 9)
            rows += [
                Row(
                    code=code,
                    kind=kind_of(call, maker),
                    cause=text_of(cause),
                    remedy=text_of(remedy),
                    where=where,
                )
                for code in codes_of(argument(call, "code", 0))
            ]
        elif where.startswith(("campaign/", "commands/campaign_")) and argument(call, "code", 9):
            cause, code = argument(call, "cause", 9), argument(call, "code", 9)
            rows += [
                Row(
                    code=c,
                    kind="hole",
                    cause=text_of(cause),
                    remedy=text_of(argument(call, "remedy", 9)),
                    where=where,
                )
                for c in codes_of(code)
            ]
        elif maker in helpers and (made := row_of_helper(call, *helpers[maker], where=where)) is not None:
            rows.append(made)
        elif maker in {*helpers, "read_typed"}:
            given = [*call.args, *(word.value for word in call.keywords if word.arg in (None, "code"))]
            codes = [code for one in given for code in codes_of(one) if CODE.fullmatch(code)][:1]
            rows += [handed_on(call, code, where) for code in codes]
    return [*rows, *rows_of_tuples(tree, where)]


def helpers_in(tree: ast.Module) -> dict[str, tuple[ast.FunctionDef, ast.Call]]:
    """Functions that make what their caller names by code, and the call that makes it."""
    helpers = {}
    for function in [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]:
        parameters = {one.arg for one in [*function.args.args, *function.args.kwonlyargs]}
        for call in [one for one in ast.walk(function) if isinstance(one, ast.Call)]:
            maker = call.func.id if isinstance(call.func, ast.Name) else ""
            code = argument(call, "code", 0)
            if maker in MAKERS and isinstance(code, ast.Name) and code.id in parameters:
                helpers.setdefault(function.name, (function, call))
    return helpers


def row_of_helper(call: ast.Call, function: ast.FunctionDef, made: ast.Call, *, where: str) -> Row | None:
    """What a helper makes of a call's literals; ``None`` where the call gives no literal code."""
    names = [one.arg for one in function.args.args if one.arg not in ("self", "cls")]
    given: Given = {
        **dict(zip(names, call.args, strict=False)),
        **{word.arg: word.value for word in call.keywords if word.arg is not None},
    }
    codes = codes_of(given_for(argument(made, "code", 0), given))
    if len(codes) != 1:
        return None
    assert isinstance(made.func, ast.Name)
    return Row(
        code=codes[0],
        kind=kind_of(made, made.func.id, given),
        cause=text_of(argument(made, "cause", 1), given),
        remedy=text_of(argument(made, "remedy", 9), given),
        where=where,
    )


def handed_on(call: ast.Call, code: str, where: str) -> Row:
    """A code that a helper makes: its words are those among the arguments that are sentences."""
    texts = [text for one in call.args if " " in (text := text_of(one))] + ["", ""]
    cause = text_of(argument(call, "cause", 9)) or texts[0]
    remedy = text_of(argument(call, "remedy", 9)) or texts[1]
    return Row(code=code, kind="error or finding", cause=cause, remedy=remedy, where=where)


def rows_of_tuples(tree: ast.Module, where: str) -> list[Row]:
    """Codes that stand in a table of a module: (code, cause, remedy or paths)."""
    rows = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple) and len(node.elts) >= 3:
            code, cause = (text_of(one) for one in node.elts[:2])
            if CODE.fullmatch(code) and " " in cause:
                kind = "error or finding"
                rows.append(Row(code=code, kind=kind, cause=cause, remedy=text_of(node.elts[2]), where=where))
    return rows


def rows_of_books() -> list[Row]:
    rows = []
    for name, (key, where) in BOOKS.items():
        for record in yaml.safe_load((KIT / "kitctl" / "data" / name).read_text())[key]:
            kind = "diagnosis" if name == "failures.yaml" else f"finding, {record.get('severity', 'block')}"
            remedy = record.get("remedy")
            told = remedy if isinstance(remedy, str) else ""
            rows.append(
                Row(
                    code=record["code"],
                    kind=kind,
                    cause=str(record.get("cause", "")),
                    remedy=told,
                    where=where,
                )
            )
    return rows


def all_rows() -> list[Row]:
    """Every code once a kind, the place that tells most of it first."""
    found: dict[tuple[str, str], Row] = {}
    for row in [*rows_of_books(), *(row for path in SOURCES for row in rows_in(path))]:
        kept = found.get((row.code, row.kind))
        if kept is None or len(row.cause) > len(kept.cause):
            found[row.code, row.kind] = row
    caused = {row.code for row in found.values() if row.cause}
    told = caused | {row.code for row in found.values() if row.remedy}
    kept_rows = [
        row
        for row in found.values()
        if row.cause or (row.code not in caused and row.remedy) or row.code not in told
    ]
    return sorted(kept_rows, key=lambda row: (row.code, row.kind))


def page_text() -> str:
    def cell(text: str) -> str:
        return " ".join(text.split()).replace("|", "\\|")

    lines = [
        f"| `{r.code}` | {r.kind} | {cell(r.cause)} | {cell(r.remedy)} | {r.where} |" for r in all_rows()
    ]
    return HEAD + "\n".join(lines) + "\n"


def test_the_page_holds_every_code(accept: bool) -> None:
    if accept:
        PAGE.write_text(page_text())
    assert PAGE.read_text() == page_text()


def test_a_code_that_a_helper_makes_is_told_as_the_helper_makes_it() -> None:
    rows = {row.code: row for row in all_rows()}
    found = rows["other-model"]
    assert (found.kind, found.where) == ("finding, warn", "bench/likeness")
    assert found.cause == "{label} and {label} served different models"
    assert found.remedy == "measure both with the same model"


def test_codes_that_users_meet_are_there() -> None:
    """One of each way in which a code is made."""
    codes = {row.code for row in all_rows()}
    assert {
        "unknown-stack", "model-unlocked", "image-not-recorded", "bundle-damaged", "kit-file-changed", "lws-missing",
        "bad-stack", "p2p-level-5-means-SYS", "ep-does-not-divide-experts", "k8s-ep-against-experts", "hub-gated",
        "memory-does-not-fit",
    } <= codes  # fmt: skip
    assert len(codes) > 300


def literal_codes() -> set[str]:
    """What stands after ``code=`` or first in a maker's call anywhere in the source."""
    found: set[str] = set()
    for path in SOURCES:
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call):
                named: list[Any] = [word.value for word in call.keywords if word.arg == "code"]
                is_maker = isinstance(call.func, ast.Name) and call.func.id in MAKERS
                found |= {
                    code for one in [*named, *(call.args[:1] if is_maker else [])] for code in codes_of(one)
                }
    return {code for code in found if CODE.fullmatch(code)}


def test_no_literal_code_is_left_out() -> None:
    assert literal_codes() - {row.code for row in all_rows()} == set()
