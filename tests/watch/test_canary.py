"""The first answers prove more than that tokens come out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitctl.kit.stack import Expect
from kitctl.watch.canary import CanaryAnswer, accept_length, judge_canary, repeats_endlessly


def answer(
    text: str, *, prompt: str = "Hi", model: str | None = "m", tokens: int = 65, passes: int | None = None
) -> CanaryAnswer:
    return CanaryAnswer(prompt=prompt, text=text, model=model, tokens=tokens, verify_passes=passes)


def codes(*answers: CanaryAnswer, expect: Expect | None = None, drafter: bool = False) -> list[str]:
    found = judge_canary(answers, expect or Expect(), served_model="m", has_drafter=drafter)
    return [finding.code for finding in found]


@pytest.mark.parametrize(
    ("given_answer", "code"),
    [
        (answer("Paris is the capital of France."), None),
        (answer("  \n"), "canary-empty"),
        (answer("the the the the the the the the the the"), "canary-repeats"),
        (answer("Well. " + "!" * 60), "canary-repeats"),
        (answer("Paris", model="other"), "canary-wrong-model"),
        (answer("Paris", model=None), None),
    ],
)
def test_one_answer(given_answer: CanaryAnswer, code: str | None) -> None:
    assert codes(given_answer) == ([code] if code else [])


def test_a_stack_may_state_its_own_answer_even_a_repeating_one() -> None:
    expect = Expect(prompt="Hi", answer="a a a a a a a a a a a")
    assert codes(answer("a a a a a a a a a a a a"), expect=expect) == []
    assert codes(answer("b"), expect=expect) == ["canary-unexpected"]


def test_a_stack_that_states_an_answer_is_judged_by_its_other_answers_too() -> None:
    expect = Expect(prompt="Hi", answer="Hello", prompts=("Count.",))
    said = answer("Hello")
    assert codes(said, answer("one, two", prompt="Count."), expect=expect) == []
    assert codes(said, answer("no no no no no no no no no", prompt="Count."), expect=expect) == [
        "canary-repeats"
    ]
    assert codes(said, answer(" ", prompt="Count."), expect=expect) == ["canary-empty"]


def test_acceptance_near_one_is_a_broken_drafter() -> None:
    assert codes(answer("Paris", passes=64), drafter=True) == ["drafter-broken"]
    assert codes(answer("Paris", passes=16), drafter=True) == []
    assert codes(answer("Paris"), drafter=True) == ["accept-length-unknown"]
    assert codes(answer("Paris", passes=16), drafter=True, expect=Expect(accept_length_min=5)) == [
        "accept-length-low"
    ]
    assert codes(answer("Paris", passes=8), drafter=True, expect=Expect(accept_length_max=5)) == [
        "accept-length-high"
    ]


def test_accept_length_leaves_out_the_token_of_the_prefill() -> None:
    assert accept_length((answer("x", tokens=65, passes=8), answer("y", tokens=33, passes=4))) == 8.0


@given(st.text(alphabet="abc ", min_size=1, max_size=6), st.integers(min_value=9, max_value=40))
def test_any_unit_said_often_enough_is_endless(unit: str, times: int) -> None:
    text = unit * times
    assert repeats_endlessly(text) or len(text.strip()) < 8


@given(st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta"]), min_size=1, max_size=7))
def test_a_short_sentence_is_never_endless(words: list[str]) -> None:
    assert not repeats_endlessly(" ".join(words))
