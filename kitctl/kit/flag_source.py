"""Read an engine release's flags from its source, without importing it.

SGLang declares a flag either as a class field annotated ``A[type, "help"]`` or ``A[type, Arg(...)]`` or with a
literal ``parser.add_argument(...)`` (SGLang 0.5.16 and 0.5.23, srt/server_args.py and srt/arg_groups/).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from kitctl.errors import Exit, KitError
from kitctl.kit.flag_table import Flag, FlagTable, Takes
from kitctl.kit.literals import Scope, UnreadableError, collect_scope, read_value

_PLAIN_TYPES = {"str", "int", "float", "bool"}
_DEPRECATION_MARKS = ("[deprecated]", "(deprecated", "deprecated")


def build_flag_table(sources: Mapping[str, str], *, engine: str, release: str) -> FlagTable:
    """The flags declared in ``sources`` (path to text). Raises KitError ``no-flags`` (exit 2) on none."""
    trees = {path: ast.parse(text) for path, text in sources.items()}
    scope = collect_scope(trees.values())
    flags: dict[str, Flag] = {}
    for path, tree in trees.items():
        if _declares_flags(path):
            for flag in _flags_of(tree, scope):
                flags.setdefault(flag.name, flag)
    if not flags:
        raise KitError(
            "no-flags",
            f"no flags were found in the source of {engine} {release}",
            remedy="name the files that declare them under [flags] in pins.toml",
            exit_code=Exit.USAGE,
        )
    return FlagTable(engine=engine, release=release, flags=tuple(flags.values()))


def _declares_flags(path: str) -> bool:
    """Other sources are given only for the values that flags refer to."""
    return path.endswith("server_args.py") or "/arg_groups/" in path


def _flags_of(tree: ast.Module, scope: Scope) -> Iterator[Flag]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for field in node.body:
                found = _field_flag(field, scope, f"{node.name}.")
                if found is not None:
                    yield found
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "parser.add_argument":
            found = _argument_flag(node, scope)
            if found is not None:
                yield found


def _field_flag(field: ast.stmt, scope: Scope, owner: str) -> Flag | None:
    match field:
        case ast.AnnAssign(
            target=ast.Name(id=name),
            annotation=ast.Subscript(value=ast.Name(id="A"), slice=ast.Tuple(elts=[kind, meta, *_])),
        ):
            return _annotated_flag(name, kind, meta, field.value, scope, owner)
    return None


def _annotated_flag(
    name: str, kind: ast.expr, meta: ast.expr, default: ast.expr | None, scope: Scope, owner: str
) -> Flag | None:
    words = _keywords(meta) if isinstance(meta, ast.Call) else {"help": meta}
    if _plain(words.get("no_cli"), scope, owner) is True:
        return None
    cli_name = _plain(words.get("cli_name"), scope, owner) or f"--{name.replace('_', '-')}"
    inner = _without_optional(kind)
    choices = _choices(words.get("choices"), scope, owner) or _literal_choices(inner, scope)
    takes = _takes_of_field(inner, words)
    if takes is Takes.NOTHING:
        choices = None
    value, known = _default(default, scope, owner)
    aliases = tuple(_plain(words.get("aliases"), scope, owner) or ())
    if _is_boolean_pair(words):
        aliases = (*aliases, f"--no-{cli_name.removeprefix('--')}")
    return Flag(
        name=cli_name,
        aliases=aliases,
        takes=takes,
        type="bool" if takes is Takes.NOTHING else _type_name(words.get("type_parser"), inner),
        choices=choices,
        default=value,
        has_default=known,
        required=default is None,
        deprecated=_says_deprecated(words),
    )


def _keywords(call: ast.Call) -> dict[str, ast.expr]:
    return {word.arg: word.value for word in call.keywords if word.arg}


def _without_optional(kind: ast.expr) -> ast.expr:
    match kind:
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
            return inner
        case ast.BinOp(left=inner, op=ast.BitOr(), right=ast.Constant(value=None)):
            return inner
    return kind


def _literal_choices(inner: ast.expr, scope: Scope) -> tuple[Any, ...] | None:
    match inner:
        case ast.Subscript(value=ast.Name(id="Literal"), slice=values):
            return _choices(values, scope, "")
    return None


def _takes_of_field(inner: ast.expr, words: Mapping[str, ast.expr]) -> Takes:
    if _is_boolean_pair(words):
        return Takes.NOTHING
    if "nargs" in words or "action" in words:
        nargs = ast.unparse(words["nargs"]) if "nargs" in words else ""
        kwargs = ast.unparse(words["action_kwargs"]) if "action_kwargs" in words else ""
        return _takes_of_nargs(nargs or kwargs)
    is_list = isinstance(inner, ast.Subscript) and ast.unparse(inner.value) in ("List", "list")
    if is_list and "type_parser" not in words:
        return Takes.MANY
    if isinstance(inner, ast.Name) and inner.id == "bool" and "type_parser" not in words:
        return Takes.NOTHING
    return Takes.ONE


def _is_boolean_pair(words: Mapping[str, ast.expr]) -> bool:
    return "action" in words and ast.unparse(words["action"]).endswith("BooleanOptionalAction")


def _takes_of_nargs(text: str) -> Takes:
    if "'?'" in text:
        return Takes.OPTIONAL
    return Takes.MANY if "'+'" in text or "'*'" in text else Takes.ONE


def _type_name(parser: ast.expr | None, inner: ast.expr) -> str:
    if parser is not None:
        return ast.unparse(parser)
    if isinstance(inner, ast.Subscript):
        inner = inner.slice.elts[0] if isinstance(inner.slice, ast.Tuple) else inner.slice
    name = type(inner.value).__name__ if isinstance(inner, ast.Constant) else ast.unparse(inner)
    return name if name in _PLAIN_TYPES else "str"


def _argument_flag(call: ast.Call, scope: Scope) -> Flag | None:
    names = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    if not names:
        return None
    words = _keywords(call)
    action = ast.unparse(words["action"]) if "action" in words else ""
    new_flag = _plain(words.get("new_flag"), scope, "")
    value, known = _default(words.get("default"), scope, "")
    return Flag(
        name=names[0],
        aliases=tuple(names[1:]),
        takes=_takes_of_argument(action, words),
        type=ast.unparse(words["type"]) if "type" in words else "str",
        choices=_choices(words.get("choices"), scope, ""),
        default=value,
        has_default=known,
        deprecated=action.startswith("Deprecated") or _says_deprecated(words),
        replaced_by=new_flag,
    )


def _takes_of_argument(action: str, words: Mapping[str, ast.expr]) -> Takes:
    if "nargs" in words:
        return _takes_of_nargs(ast.unparse(words["nargs"]))
    alone = ("DeprecatedAction", "DeprecatedStoreTrueAction", "DeprecatedStoreConstAction")
    stores_true = action.strip("'\"") in ("store_true", "store_false", *alone)
    return Takes.NOTHING if stores_true else Takes.ONE


def _says_deprecated(words: Mapping[str, ast.expr]) -> bool:
    if "help" not in words:
        return False
    said = " ".join(
        part.value
        for part in ast.walk(words["help"])
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    )
    return said.lower().lstrip().startswith(_DEPRECATION_MARKS)


def _plain(node: ast.expr | None, scope: Scope, owner: str) -> Any:
    if node is None:
        return None
    try:
        return read_value(node, scope, owner)
    except UnreadableError:
        return None


def _choices(node: ast.expr | None, scope: Scope, owner: str) -> tuple[Any, ...] | None:
    found = _plain(node, scope, owner)
    return tuple(found) if isinstance(found, list) else None


def _default(node: ast.expr | None, scope: Scope, owner: str) -> tuple[Any, bool]:
    """The default and whether the source shows it."""
    if node is None:
        return None, False
    try:
        found = read_value(node, scope, owner)
    except UnreadableError:
        return None, False
    return found, found is None or isinstance(found, str | int | float | bool | list)
