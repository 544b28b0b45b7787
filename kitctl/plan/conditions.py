"""Does a condition, written as a line of data, hold for the values at hand?

A condition is a Python expression of names, numbers, texts, lists, arithmetic, comparisons, ``in``, ``and``,
``or``, ``not``, ``a if c else b`` and calls of the named functions handed in; nothing else is accepted. A name whose
value is unknown (``None``) makes the part that needs it not hold, unless the line asks ``NAME is None``.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from kitctl.errors import Exit, KitError

Values = Mapping[str, Any]
Condition = Callable[[Values], Any]

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}


class _UnknownError(Exception):
    """A value that the condition needs is unknown, or has no meaning (a division by zero)."""


def compile_condition(text: str, *, source: str) -> Condition:
    """``text`` as a function of the values. Raises KitError ``bad-condition`` (exit 2) naming ``source``."""
    try:
        build = _build(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError) as broken:
        raise KitError(
            "bad-condition",
            f"{source}: {text!r}: {broken}",
            remedy="write names, numbers, texts, comparisons, and, or, not",
            exit_code=Exit.USAGE,
        ) from broken
    return build


def holds(condition: Condition, values: Values) -> bool:
    """Whether the condition holds; what needs an unknown value does not, nor what compares a text with a number."""
    return bool(value_of(condition, values))


def value_of(condition: Condition, values: Values) -> Any:
    """The value of an expression, ``None`` when it needs an unknown or unsuited one."""
    try:
        return condition(values)
    except (_UnknownError, ZeroDivisionError, TypeError):
        return None


def names_in(text: str) -> frozenset[str]:
    """The names that a condition reads."""
    return frozenset(node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name))


def _build(node: ast.expr) -> Condition:
    builder = _BUILDERS.get(type(node))
    if builder is None:
        raise ValueError(f"{type(node).__name__} is not accepted")
    return builder(node)


def _constant(node: Any) -> Condition:
    value = node.value
    return lambda values: value


def _name(node: Any) -> Condition:
    name = node.id

    def read(values: Values) -> Any:
        value = values[name]
        if value is None:
            raise _UnknownError(name)
        return value

    return read


def _listing(node: Any) -> Condition:
    parts = [_build(part) for part in node.elts]
    return lambda values: tuple(part(values) for part in parts)


def _arithmetic(node: Any) -> Condition:
    left, right, combine = _build(node.left), _build(node.right), _ARITHMETIC[type(node.op)]
    return lambda values: combine(left(values), right(values))


def _unary(node: Any) -> Condition:
    inner = _build(node.operand)
    if isinstance(node.op, ast.Not):
        return lambda values: not holds(inner, values)
    return lambda values: -inner(values)


def _logic(node: Any) -> Condition:
    parts = [_build(part) for part in node.values]
    if isinstance(node.op, ast.And):
        return lambda values: all(part(values) for part in parts)
    return lambda values: any(holds(part, values) for part in parts)


def _choice(node: Any) -> Condition:
    test, yes, no = _build(node.test), _build(node.body), _build(node.orelse)
    return lambda values: yes(values) if holds(test, values) else no(values)


def _comparison(node: Any) -> Condition:
    if isinstance(node.ops[0], ast.Is | ast.IsNot):
        return _is_none(node)
    left = _build(node.left)
    steps = [
        (_COMPARISONS[type(op)], _build(right)) for op, right in zip(node.ops, node.comparators, strict=True)
    ]

    def compare(values: Values) -> bool:
        current = left(values)
        for step, right in steps:
            following = right(values)
            if not step(current, following):
                return False
            current = following
        return True

    return compare


def _is_none(node: Any) -> Condition:
    wanted = isinstance(node.ops[0], ast.Is)
    if not isinstance(node.comparators[0], ast.Constant) or node.comparators[0].value is not None:
        raise ValueError("'is' compares with None only")
    inner = _build(node.left)

    def is_none(values: Values) -> bool:
        try:
            return (inner(values) is None) is wanted
        except _UnknownError:
            return wanted

    return is_none


def _call(node: Any) -> Condition:
    if not isinstance(node.func, ast.Name) or node.keywords:
        raise ValueError("only a call of a named function is accepted")
    name, parts = node.func.id, [_build(part) for part in node.args]

    def call(values: Values) -> Any:
        found = values[name](*(part(values) for part in parts))
        if found is None:
            raise _UnknownError(name)
        return found

    return call


_BUILDERS: dict[type[ast.expr], Callable[[Any], Condition]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Tuple: _listing,
    ast.List: _listing,
    ast.BinOp: _arithmetic,
    ast.UnaryOp: _unary,
    ast.BoolOp: _logic,
    ast.IfExp: _choice,
    ast.Compare: _comparison,
    ast.Call: _call,
}
