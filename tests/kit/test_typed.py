"""A tree becomes a stack, or the message names file, field and the nearest thing that was meant."""

from typing import Any

import pytest

from kitctl.errors import Exit, KitError
from kitctl.kit.stack import Graphs, Stack
from kitctl.kit.typed import read_typed

LEAST = {"name": "x", "summary": "s", "model": "m"}


def read(tree: dict[str, Any]) -> Stack:
    return read_typed({**LEAST, **tree}, Stack, source_of=lambda path: f"<{path}>", code="bad-stack")


def test_defaults_and_values() -> None:
    stack = read({"engine": {"graphs": "off"}, "parallel": {"tp": 4, "pp": 2, "dp": 2}})
    assert (stack.engine.graphs, stack.gpu_count, stack.serve.port) == (Graphs.OFF, 16, 30001)


@pytest.mark.parametrize(
    ("tree", "cause", "hint"),
    [
        ({"engin": {}}, "<engin>: engin: unknown key", "did you mean 'engine'?"),
        ({"parallel": {"tpp": 1}}, "<parallel.tpp>: parallel.tpp: unknown key", "did you mean 'tp'?"),
        ({"drafter": {"model": "d", "windw": 1}}, "<drafter.windw>: drafter.windw: unknown key",
         "known: algorithm, attention_backend, block_size, draft_window, model"),
        ({"engine": {"graphs": "of"}}, "<engine.graphs>: engine.graphs: Invalid enum value 'of'",
         "did you mean 'off'?"),
        ({"drafter": {"model": "d", "algorithm": "DFLSH"}},
         "<drafter.algorithm>: drafter.algorithm: Invalid enum value 'DFLSH'", "did you mean 'DFLASH'?"),
        ({"parallel": {"tp": "8"}}, "<parallel.tp>: parallel.tp: Expected `int`, got `str`", None),
        ({"parallel": {"tp": 0}}, "<parallel.tp>: parallel.tp: Expected `int` >= 1", None),
        ({"parallel": 8}, "<parallel>: parallel: Expected `object`, got `int`", None),
        ({"serve": {"port": 65536}}, "<serve.port>: serve.port: Expected `int` <= 65535", None),
        ({"engine": {"mem_fraction_static": 1.0}},
         "<engine.mem_fraction_static>: engine.mem_fraction_static: Expected `float` < 1.0", None),
        ({"drafter": {}}, "<drafter>: drafter: Object missing required field `model`", None),
        ({"archs": [12]}, "<archs[0]>: archs[0]: Expected `str`, got `int`", None),
        ({"engine": {"flags": {1: 2}}}, "<engine.flags>: engine.flags: Expected `str`, got `int`", None),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(tree: dict[str, Any], cause: str, hint: str | None) -> None:
    with pytest.raises(KitError) as refused:
        read(tree)
    error = refused.value
    assert (error.cause, error.evidence) == (cause, (hint,) if hint else ())
    assert (error.code, error.exit_code) == ("bad-stack", Exit.USAGE)
