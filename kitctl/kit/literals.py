"""What value does an expression in a Python source have, as far as reading alone can tell?

Constants, lists of them, names and class attributes assigned in the same sources, ``+``, ``list(...)``,
``X.keys()``, and calls of functions whose last statement returns such a value. Nothing is run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


class UnreadableError(Exception):
    """The value depends on something that reading the source does not show."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Assignments by name (``NAME`` or ``Class.NAME``) and functions by name, over several sources."""

    assigned: Mapping[str, ast.expr]
    functions: Mapping[str, ast.FunctionDef]


def collect_scope(trees: Iterable[ast.Module]) -> Scope:
    """Assignments and functions of all ``trees``; of two with one name the first counts."""
    assigned: dict[str, ast.expr] = {}
    functions: dict[str, ast.FunctionDef] = {}
    for tree in trees:
        _collect(tree.body, "", assigned, functions)
    return Scope(assigned=assigned, functions=functions)


def _collect(
    body: list[ast.stmt], owner: str, assigned: dict[str, ast.expr], functions: dict[str, ast.FunctionDef]
) -> None:
    for node in body:
        if isinstance(node, ast.ClassDef):
            _collect(node.body, f"{node.name}.", assigned, functions)
        elif isinstance(node, ast.FunctionDef):
            functions.setdefault(node.name, node)
            _collect([inner for inner in node.body if isinstance(inner, ast.Assign)], "", assigned, functions)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            assigned.setdefault(owner + node.targets[0].id, node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            assigned.setdefault(owner + node.target.id, node.value)


def read_value(node: ast.expr, scope: Scope, owner: str = "") -> Any:
    """The value of ``node``; sets become sorted lists, mappings the list of their keys.

    ``owner`` is the class (with a dot) whose body ``node`` stands in. Raises UnreadableError.
    """
    match node:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -read_value(inner, scope, owner)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [read_value(item, scope, owner) for item in items]
        case ast.Set(elts=items):
            return sorted(read_value(item, scope, owner) for item in items)
        case ast.Dict(keys=keys):
            return [read_value(key, scope, owner) for key in keys if key is not None]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return read_value(left, scope, owner) + read_value(right, scope, owner)
        case ast.Name(id=name):
            return _named(name, scope, owner)
        case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr=attribute):
            return _named(f"{name}.{attribute}", scope, "")
        case ast.Call():
            return _called(node, scope, owner)
    raise UnreadableError(ast.unparse(node))


def _named(name: str, scope: Scope, owner: str) -> Any:
    for known in (owner + name, name):
        if known in scope.assigned:
            inner_owner = f"{known.rpartition('.')[0]}." if "." in known else ""
            return read_value(scope.assigned[known], scope, inner_owner)
    raise UnreadableError(name)


def _called(node: ast.Call, scope: Scope, owner: str) -> Any:
    match node:
        case ast.Call(func=ast.Name(id="list" | "tuple" | "dict"), args=[inner]):
            return read_value(inner, scope, owner)
        case ast.Call(func=ast.Name(id="set" | "sorted" | "frozenset"), args=[inner]):
            return sorted(read_value(inner, scope, owner))
        case ast.Call(func=ast.Attribute(value=inner, attr="keys"), args=[]):
            return read_value(inner, scope, owner)
        case ast.Call(func=ast.Name(id=name), args=[]) if name in scope.functions:
            last = scope.functions[name].body[-1]
            if isinstance(last, ast.Return) and last.value is not None:
                return read_value(last.value, scope, owner)
    raise UnreadableError(ast.unparse(node))
