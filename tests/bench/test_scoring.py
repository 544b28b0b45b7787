"""Exact answers are found in free text, and a loss is called so only beyond chance."""

import json
from collections import Counter
from importlib.resources import files

import pytest

from kitctl.bench.answers import Record
from kitctl.bench.prompts import Match, Prompt, read_prompt_set
from kitctl.bench.scoring import change_between, score_answer, score_lines, score_of, why_invalid, wilson


def judged(answer: str, text: str, match: str = "number", **record: str | None) -> bool:
    prompt = Prompt(id="q", text="?", answer=answer, match=Match(match))
    found = Record(request=0, stream=0, begun_ns=0, sent_ns=0, end_ns=1, text=text, finish="stop", **record)  # type: ignore[arg-type]
    return score_answer(prompt, found).correct


@pytest.mark.parametrize(
    ("answer", "text", "right"),
    [
        ("33", "First 7, then 65 / 2.\nAnswer: 33", True),
        ("33", "**Answer: 33 rolls**", True),
        ("33", "The answer is: $33$", True),
        ("33", "So we get \\boxed{33}.", True),
        ("33", "That makes 33", True),
        ("33", "Answer: 34", False),
        ("33", "I cannot tell.", False),
        ("8487.2", "Answer: 8,487.20", True),
        ("399.5", "Answer: 399.50", True),
        ("1/6", "Answer: 1/6", True),
        ("1/6", "Answer: \\frac{1}{6}", True),
        ("1/6", "Answer: 0.1667", True),
        ("1/6", "Answer: 0.2", False),
        ("72", "<think>maybe 71. Answer: 71</think>Answer: 72 km/h", True),
        ("-5", "Answer: -5", True),
    ],
)
def test_numbers(answer: str, text: str, right: bool) -> None:
    assert judged(answer, text) is right


@pytest.mark.parametrize(
    ("answer", "text", "right"),
    [
        ("Tom Achterberg", "Answer: Tom Achterberg", True),
        ("Tom Achterberg", "It was Nadia who placed it.\nanswer: tom achterberg.", True),
        ("Room A", "Room A", True),
        ("node-7", 'Answer: "node-7"', True),
        ("3.6", "Answer: 3.6.", True),
        ("Geneva", "Answer: Basel", False),
    ],
)
def test_texts(answer: str, text: str, right: bool) -> None:
    assert judged(answer, text, "text") is right


@pytest.mark.parametrize(
    ("answer", "text", "right"),
    [
        ("([])", " ([])\n", True),
        ("([])", "([)]", False),
        ("([])", "([]) is closed", False),
        ("1 + 1 = 2.", "1 + 1 = 2", False),
        ("x", "", False),
    ],
)
def test_letter_for_letter(answer: str, text: str, right: bool) -> None:
    assert judged(answer, text, "exact") is right


def test_failed_request_is_wrong() -> None:
    assert judged("33", "Answer: 33", error="timeout") is False


def test_wilson() -> None:
    assert wilson(50, 100) == pytest.approx((0.404, 0.596), abs=0.001)
    assert wilson(60, 60) == pytest.approx((0.940, 1.0), abs=0.001)


@pytest.mark.parametrize(
    ("lost", "won", "worse"), [(0, 0, False), (3, 1, False), (6, 0, True), (9, 1, True), (0, 9, False)]
)
def test_worse_only_beyond_chance(lost: int, won: int, worse: bool) -> None:
    before = {f"q{n}": n < 30 for n in range(60)}
    after = {
        key: (right and n >= lost) or (not right and n < 30 + won)
        for n, (key, right) in enumerate(before.items())
    }
    found = change_between(before, after)
    assert (len(found.lost), len(found.won), found.is_worse) == (lost, won, worse)
    assert found.change == pytest.approx((won - lost) / 60)


def test_the_demo_questions_are_six_of_each_kind_at_least_and_score() -> None:
    text = files("kitctl.data").joinpath("quality/demo.jsonl").read_text(encoding="utf-8")
    prompts = read_prompt_set("demo", text).prompts
    kinds = Counter(prompt.category for prompt in prompts)
    assert kinds == dict.fromkeys(("sums", "differences", "brackets", "repeat", "reverse"), 12) | {"facts": 6}
    assert len({prompt.id for prompt in prompts}) == len(prompts) == 66
    for prompt in prompts:
        assert prompt.match is Match.EXACT
        assert judged(str(prompt.answer), f" {prompt.answer}\n", "exact")


def test_the_kits_questions_have_answers_that_score() -> None:
    text = files("kitctl.data").joinpath("quality/kit.jsonl").read_text(encoding="utf-8")
    found = read_prompt_set("kit", text)
    assert len(found.prompts) == 60
    assert {prompt.category for prompt in found.prompts} == {"maths", "extraction"}
    for prompt in found.prompts:
        assert judged(prompt.answer or "", f"Well.\nAnswer: {prompt.answer}", prompt.match), prompt.id
    prompts = [json.loads(line)["prompt"] for line in text.splitlines()]
    assert len(set(prompts)) == 60


def test_lines() -> None:
    prompt = Prompt(id="q", category="maths", text="?", answer="1")
    record = Record(request=0, stream=0, begun_ns=0, sent_ns=0, end_ns=1, text="Answer: 1", finish="length")
    score = score_of([score_answer(prompt, record)])
    assert score_lines(score, {}, None) == (
        "all            1 of   1 right, 100.0% (20.7% to 100.0%)",
        "1 of 1 answers ended at the token limit (finish length), which alone may make them wrong: "
        "raise --output-tokens",
    )


def test_failed_requests_are_counted_and_spoil_the_score() -> None:
    prompts = [Prompt(id=f"q{n}", text="?", answer="1") for n in range(200)]
    error = ["http-500", "http-500", "timeout"]
    answers = [
        score_answer(
            prompt,
            Record(
                request=n,
                stream=0,
                begun_ns=0,
                sent_ns=0,
                end_ns=1,
                text="1",
                error=(error + [None] * 197)[n],
            ),
        )
        for n, prompt in enumerate(prompts)
    ]
    assert why_invalid(answers) == ("errors: 3 of 200 requests failed (http-500 x2, timeout x1)",)
    assert score_of(answers).failed == 3
    assert why_invalid(answers[1:]) != () == why_invalid(answers[2:])
    lines = score_lines(score_of(answers), {}, None, why_invalid(answers))
    assert lines[1:] == ("the score is invalid: errors: 3 of 200 requests failed (http-500 x2, timeout x1)",)
    assert score_lines(score_of(answers[2:]), {}, None)[1:] == (
        "1 of 198 requests failed and count as wrong",
    )
