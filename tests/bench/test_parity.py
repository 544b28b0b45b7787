"""Near ties are noise, clear gaps are a broken drafter, and the plain server's own noise is the measure."""

from typing import Any

import pytest

from kitctl.bench.answers import Record
from kitctl.bench.parity import Kind, divergence_of, first_difference, judge_parity, parity_lines


def answer(ids: tuple[int, ...], *, tops: list[Any] | None = None, text: str = "") -> Record:
    meta = {"output_top_logprobs": tops} if tops is not None else {}
    return Record(
        request=0, stream=0, begun_ns=0, sent_ns=0, end_ns=1, output_ids=ids or None, text=text, meta=meta
    )


def plain(gap: float) -> Record:
    """Three tokens; the second one's best candidates are ``gap`` nats apart."""
    sure = [[-0.01, 1, None], [-5.0, 9, None]]
    return answer((1, 2, 3), tops=[sure, [[-0.5, 2, None], [-0.5 - gap, 7, None]], sure])


def test_first_difference() -> None:
    assert first_difference((1, 2), (1, 2)) is None
    assert first_difference((1, 2), (1, 3)) == 1
    assert first_difference((1, 2), (1, 2, 3)) == 2


@pytest.mark.parametrize(("gap", "kind"), [(0.1, Kind.TIE), (2.0, Kind.CLEAR)])
def test_gap_decides(gap: float, kind: Kind) -> None:
    found = divergence_of("p", plain(gap), answer((1, 7, 3)))
    assert found is not None
    assert (found.position, found.kind, found.gap_nats) == (1, kind, pytest.approx(gap))


def test_token_that_was_no_candidate_is_at_least_as_far_as_the_last_one() -> None:
    found = divergence_of("p", plain(1.5), answer((1, 99)))
    assert found is not None
    assert (found.kind, found.gap_nats) == (Kind.CLEAR, pytest.approx(1.5))


@pytest.mark.parametrize(
    ("alone", "again", "drafted", "verdict"),
    [
        (plain(2), (1, 2, 3), (1, 2, 3), "equal"),
        (plain(0.1), (1, 2, 3), (1, 7, 3), "within-noise"),
        (plain(2), (1, 2, 3), (1, 7, 3), "broken"),
        (plain(2), (1, 7, 3), (1, 7, 3), "within-noise"),
        (answer((1, 2, 3)), (1, 2, 3), (1, 7, 3), "unclear"),
    ],
)
def test_verdict(alone: Record, again: tuple[int, ...], drafted: tuple[int, ...], verdict: str) -> None:
    found = judge_parity(["p"], [alone], [answer(again)], [answer(drafted)])
    assert found.verdict == verdict
    assert parity_lines(found)[0].startswith(f"parity: {verdict}: ")


def test_text_is_compared_where_ids_are_missing() -> None:
    found = judge_parity(["p"], [answer((), text="abc")], [answer((), text="abc")], [answer((), text="abd")])
    assert (found.by_tokens, found.divergences[0].position, found.verdict) == (False, 2, "unclear")
