"""A server that came up with far fewer KV tokens than planned is found out."""

import pytest

from kitctl.watch.capacity import judge_capacity


@pytest.mark.parametrize(
    ("tokens", "wanted", "planned", "last", "causes"),
    [
        (5_400_000, None, 5_483_796, None, []),
        (
            453_566,
            None,
            5_483_796,
            None,
            ["the engine holds 453566 KV tokens, 8% of what the plan says (5483796)"],
        ),
        (
            4_684_027,
            9_000_000,
            None,
            None,
            ["9000000 KV tokens were asked for, and the engine holds 4684027"],
        ),
        (
            100,
            None,
            None,
            1000,
            ["the engine holds 100 KV tokens, 10% of what the last run here says (1000)"],
        ),
        (None, 5, 5, 5, []),
        (65536, 65536, None, None, []),
    ],
)
def test_capacity(
    tokens: int | None, wanted: int | None, planned: int | None, last: int | None, causes: list[str]
) -> None:
    found = judge_capacity(tokens, wanted=wanted, planned=planned, last=last)
    assert [finding.cause for finding in found] == causes
