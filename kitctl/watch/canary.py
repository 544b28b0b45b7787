"""Is what the stack says worth anything? Judges the first answers after a start.

Ready means that a token comes out. Wrong kernels, a wrong drafter or another model also give tokens: an empty
text, the same words without end, another model's name, an acceptance length near one.
"""

from __future__ import annotations

from dataclasses import dataclass

from kitctl.finding import Finding, Severity
from kitctl.kit.stack import Expect

ACCEPTS_NOTHING = 1.1
"""Drafting adds the one token that the target gives anyway, so 1.0 means that no draft was ever accepted."""
REPEATS_WITHOUT_END = 8
REPEATED_SHARE = 0.5
QUOTED_CHARACTERS = 200


@dataclass(frozen=True, kw_only=True)
class CanaryAnswer:
    """One answer: ``text``, the name of the model that gave it, and its tokens and verify passes.

    ``verify_passes`` is ``None`` when the engine did not count them (no drafter, or too old).
    """

    prompt: str
    text: str
    model: str | None
    tokens: int
    verify_passes: int | None = None


def judge_canary(
    answers: tuple[CanaryAnswer, ...], expect: Expect, *, served_model: str, has_drafter: bool
) -> tuple[Finding, ...]:
    """Findings on the first answers; empty when they are as the stack expects. None of them blocks."""
    findings = [found for answer in answers for found in _judge_answer(answer, expect, served_model)]
    if has_drafter:
        findings.extend(_judge_acceptance(answers, expect))
    return tuple({finding.code: finding for finding in reversed(findings)}.values())


def accept_length(answers: tuple[CanaryAnswer, ...]) -> float | None:
    """Tokens a verify pass over all answers, the first token of each left out; ``None`` when not counted.

    The first token comes from the prefill, not from a verify pass (measured, SGLang 0.5.16).
    """
    counted = [answer for answer in answers if answer.verify_passes]
    passes = sum(answer.verify_passes or 0 for answer in counted)
    tokens = sum(answer.tokens - 1 for answer in counted)
    return tokens / passes if passes else None


def repeats_endlessly(text: str) -> bool:
    """Whether the text ends in one unit said over and over: at least eight times, over half of the text."""
    tail = text.strip()
    for size in range(1, len(tail) // REPEATS_WITHOUT_END + 1):
        unit = tail[-size:]
        times = _times_at_end(tail, unit)
        if times >= REPEATS_WITHOUT_END and times * size >= REPEATED_SHARE * len(tail):
            return True
    return False


def _times_at_end(text: str, unit: str) -> int:
    times = 0
    end = len(text)
    while end >= len(unit) and text[end - len(unit) : end] == unit:
        times += 1
        end -= len(unit)
    return times


def _judge_answer(answer: CanaryAnswer, expect: Expect, served_model: str) -> list[Finding]:
    if answer.model is not None and answer.model != served_model:
        return [_finding("canary-wrong-model", f"{answer.model} answered, not {served_model}", answer)]
    if not answer.text.strip():
        return [_finding("canary-empty", "the answer is empty", answer)]
    if expect.answer is not None and answer.prompt == expect.prompt:
        if expect.answer.strip() in answer.text:
            return []
        cause = f"the answer is not what the stack expects ({expect.answer[:QUOTED_CHARACTERS]!r})"
        return [_finding("canary-unexpected", cause, answer)]
    if repeats_endlessly(answer.text):
        return [_finding("canary-repeats", "the answer repeats itself without end", answer)]
    return []


def _judge_acceptance(answers: tuple[CanaryAnswer, ...], expect: Expect) -> list[Finding]:
    length = accept_length(answers)
    if length is None:
        return [
            Finding(
                code="accept-length-unknown",
                severity=Severity.NOTE,
                cause="the engine counted no verify passes, so the drafter is not proven",
                remedy="kitctl accept measures it over many prompts",
            )
        ]
    evidence = (f"accept length {length:.2f} over {len(answers)} answers",)
    if length < ACCEPTS_NOTHING:
        cause = "the target accepts nothing that the drafter proposes: speculation only costs time"
        return [_acceptance("drafter-broken", cause, evidence)]
    low, high = expect.accept_length_min, expect.accept_length_max
    if low is not None and length < low:
        return [_acceptance("accept-length-low", f"the stack expects at least {low:g}", evidence)]
    if high is not None and length > high:
        return [_acceptance("accept-length-high", f"the stack expects at most {high:g}", evidence)]
    return []


def _acceptance(code: str, cause: str, evidence: tuple[str, ...]) -> Finding:
    return Finding(
        code=code,
        severity=Severity.WARN,
        cause=cause,
        remedy="kitctl models verify the drafter against the lock, and compare with the stack without it",
        evidence=evidence,
    )


def _finding(code: str, cause: str, answer: CanaryAnswer) -> Finding:
    return Finding(
        code=code,
        severity=Severity.WARN,
        cause=cause,
        remedy="start with prefill graphs off, then with another attention backend, and compare the answers",
        evidence=(
            f"asked: {answer.prompt[:QUOTED_CHARACTERS]}",
            f"said: {answer.text.strip()[:QUOTED_CHARACTERS]!r}",
        ),
    )
