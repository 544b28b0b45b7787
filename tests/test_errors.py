"""Exit codes are unique and documented; each error code that the sources raise is in one spelling."""

import ast
import re
from pathlib import Path

import pytest

from kitctl.errors import EXIT_MEANINGS, Exit, KitError

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "kitctl").rglob("*.py"))


def test_exit_codes_are_unique_and_as_promised() -> None:
    assert [(code.name, int(code)) for code in Exit] == [
        ("OK", 0),
        ("USAGE", 2),
        ("REFUSED", 3),
        ("BUILD", 4),
        ("FETCH", 5),
        ("START", 6),
        ("CRASHED", 7),
        ("NOT_READY", 8),
        ("GATE", 9),
        ("UNREACHABLE", 10),
        ("BUG", 70),
        ("INTERRUPTED", 130),
    ]
    assert set(EXIT_MEANINGS) == set(Exit)
    assert len(set(EXIT_MEANINGS.values())) == len(Exit)


def test_a_remedy_is_required() -> None:
    with pytest.raises(TypeError):
        KitError("code", "cause", exit_code=Exit.USAGE)  # type: ignore[call-arg]


def raised_errors() -> list[tuple[str, ast.Call]]:
    return [
        (str(path.relative_to(ROOT)), node)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "KitError"
    ]


def test_each_error_has_a_plain_code() -> None:
    codes = [
        (place, word.value)
        for place, call in raised_errors()
        for word in call.args[:1]
        if isinstance(word, ast.Constant)
    ]
    assert [found for found in codes if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", found[1])] == []
    assert len(codes) > 40


def test_exit_codes_are_named_never_numbers() -> None:
    numbers = [
        f"{place}:{call.lineno}"
        for place, call in raised_errors()
        for word in call.keywords
        if word.arg == "exit_code" and isinstance(word.value, ast.Constant)
    ]
    assert numbers == []
