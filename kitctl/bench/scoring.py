"""Is an answer right, and is one configuration worse than another? Exact answers, scores and a paired test."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, assert_never

import msgspec

from kitctl.bench.answers import Record
from kitctl.bench.failed import failed_kinds, too_many_failed
from kitctl.bench.prompts import Match, Prompt, PromptSet

_FINAL = re.compile(r"(?:final\s+)?answer\s*(?:is)?\s*[:=]\s*(.+)", re.IGNORECASE)
_BOXED = re.compile(r"\\boxed\{([^{}]*)\}")
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:\s*/\s*\d+)?")
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)
_LEVEL = 0.05
SCHEMA = "kitctl.quality/1"


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """One answer: what was expected, what was read out of the text, whether that is right; ``error``: why none came."""

    id: str
    category: str
    expected: str
    got: str | None
    correct: bool
    tokens: int | None
    finish: str | None
    error: str | None = None


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """Right answers of all. ``interval``: 95 %, Wilson. ``cut``: answers that ended at the token limit.

    ``failed``: questions that got no answer; they are not right either.
    """

    asked: int
    correct: int
    share: float
    interval: tuple[float, float]
    cut: int
    failed: int = 0


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The same questions asked of two configurations: those that only one of them got right, and how likely such a
    split is by chance (McNemar's exact test, two-sided)."""

    lost: tuple[str, ...]
    won: tuple[str, ...]
    change: float
    p_value: float

    @property
    def is_worse(self) -> bool:
        """Whether more was lost than chance explains."""
        return self.change < 0 and self.p_value < _LEVEL


def score_answer(prompt: Prompt, record: Record) -> Scored:
    """Judge one answer by the prompt's ``answer`` and ``match``; a failed request is a wrong answer."""
    expected = prompt.answer or ""
    text = _THOUGHT.sub("", record.text)
    got, right = _read_and_judge(prompt.match, expected, text)
    return Scored(
        id=prompt.id,
        category=prompt.category,
        expected=expected,
        got=got,
        correct=record.error is None and right,
        tokens=record.output_tokens,
        finish=record.error or record.finish,
        error=record.error,
    )


def _read_and_judge(match: Match, expected: str, text: str) -> tuple[str | None, bool]:
    """What the text answers, and whether that is right."""
    match match:
        case Match.NUMBER:
            got = read_number(text)
            return got, got is not None and _same_number(expected, got)
        case Match.TEXT:
            got = read_text_answer(text)
            return got, got is not None and _same_text(expected, got)
        case Match.EXACT:
            got = text.strip() or None
            return got, got == expected.strip()
    assert_never(match)


def read_text_answer(text: str) -> str | None:
    """What follows the last ``Answer:``, else the last line that holds something."""
    finals = _FINAL.findall(text)
    if finals:
        return str(finals[-1]).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else None


def read_number(text: str) -> str | None:
    """The number after the last ``Answer:``, in the last box, else the last number of the text."""
    for found in (_FINAL.findall(text)[-1:], _BOXED.findall(text)[-1:], [text]):
        numbers = _NUMBER.findall(found[0].replace("\\frac{", "").replace("}{", "/")) if found else []
        if numbers:
            return str(numbers[0] if found[0] is not text else numbers[-1])
    return None


def _fraction(text: str) -> Fraction | None:
    try:
        return Fraction(text.replace(",", "").replace(" ", ""))
    except (ValueError, ZeroDivisionError):
        return None


def _same_number(expected: str, got: str) -> bool:
    """Equal as fractions; a decimal may be the fraction rounded to its own places."""
    left, right = _fraction(expected), _fraction(got)
    if left is None or right is None:
        return False
    places = len(got.partition(".")[2])
    return left == right or (
        places >= 2 and "/" in expected and abs(left - right) * 2 <= Fraction(1, 10**places)
    )


def _same_text(expected: str, got: str) -> bool:
    return _plain(expected) == _plain(got)


def _plain(text: str) -> str:
    words = re.sub(r"[^\w.\-]+", " ", text.casefold()).split()
    return " ".join(word.strip(".") for word in words if word not in ("the", "a", "an"))


def score_of(answers: Sequence[Scored]) -> Score:
    """The share of right answers with its interval."""
    correct = sum(answer.correct for answer in answers)
    return Score(
        asked=len(answers),
        correct=correct,
        share=correct / len(answers),
        interval=wilson(correct, len(answers)),
        cut=sum(answer.finish == "length" for answer in answers),
        failed=sum(answer.error is not None for answer in answers),
    )


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    z = 1.96
    share = successes / trials
    middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / (1 + z * z / trials)
    return max(0.0, middle - half), min(1.0, middle + half)


def change_between(before: Mapping[str, bool], after: Mapping[str, bool]) -> Change:
    """Compare answers by question id; questions that only one side has are left out."""
    shared = [key for key in before if key in after]
    lost = tuple(key for key in shared if before[key] and not after[key])
    won = tuple(key for key in shared if after[key] and not before[key])
    change = (len(won) - len(lost)) / len(shared) if shared else 0.0
    return Change(lost=lost, won=won, change=change, p_value=_mcnemar(len(lost), len(won)))


def _mcnemar(lost: int, won: int) -> float:
    total = lost + won
    if not total:
        return 1.0
    tail: float = sum(math.comb(total, k) for k in range(max(lost, won), total + 1)) / 2.0**total
    return min(1.0, 2 * tail)


def answers_of(result: Mapping[str, Any]) -> dict[str, bool]:
    """Which questions an earlier result (``kitctl quality --json``) got right."""
    return {str(answer["id"]): bool(answer["correct"]) for answer in result["answers"]}


def why_invalid(answers: Sequence[Scored]) -> tuple[str, ...]:
    """Why the score must not be believed, each as ``code: what was seen``; empty when it may be."""
    reason = too_many_failed(failed_kinds(answer.error for answer in answers), len(answers))
    return (reason,) if reason is not None else ()


def score_lines(
    overall: Score, categories: Mapping[str, Score], change: Change | None, reasons: Sequence[str] = ()
) -> tuple[str, ...]:
    """Scores for a person; ``reasons``: why they must not be believed."""
    lines = [_score_line("all", overall), *(_score_line(name, score) for name, score in categories.items())]
    if overall.cut:
        lines.append(
            f"{overall.cut} of {overall.asked} answers ended at the token limit (finish length), which alone may make "
            "them wrong: raise --output-tokens"
        )
    if overall.failed and not reasons:
        lines.append(f"{overall.failed} of {overall.asked} requests failed and count as wrong")
    lines += [f"the score is invalid: {reason}" for reason in reasons]
    if change is not None:
        verdict = "worse" if change.is_worse else "no worse than chance explains"
        lines.append(
            f"against the earlier result: {change.change:+.1%}, {len(change.lost)} lost, {len(change.won)} won, "
            f"p = {change.p_value:.3f}: {verdict}"
        )
    return tuple(lines)


def _score_line(name: str, score: Score) -> str:
    low, high = score.interval
    return (
        f"{name:12} {score.correct:3} of {score.asked:3} right, {score.share:.1%} ({low:.1%} to {high:.1%})"
    )


def by_category(answers: Sequence[Scored]) -> dict[str, Score]:
    """A score for each category."""
    names = sorted({answer.category for answer in answers})
    return {name: score_of([answer for answer in answers if answer.category == name]) for name in names}


def quality_data(answers: Sequence[Scored], change: Change | None, *, dataset: PromptSet) -> dict[str, Any]:
    """What a result of ``kitctl quality`` says of the answers."""
    kinds = failed_kinds(answer.error for answer in answers)
    reasons = why_invalid(answers)
    return {
        "valid": not reasons,
        "invalid_reasons": list(reasons),
        "failed": sum(kinds.values()),
        "failed_kinds": kinds,
        "dataset": {"name": dataset.name, "sha256": dataset.sha256},
        "score": msgspec.to_builtins(score_of(answers)),
        "categories": msgspec.to_builtins(by_category(answers)),
        "change": msgspec.to_builtins(change),
        "answers": msgspec.to_builtins(answers),
    }
