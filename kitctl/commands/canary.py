"""Ask a fresh stack a few real questions and judge what it says."""

from __future__ import annotations

import tomllib
from collections.abc import Callable

import msgspec

from kitctl.commands.starting import Target
from kitctl.edge.package_data import package_text
from kitctl.edge.serving import Answer, ask, generate
from kitctl.finding import Finding
from kitctl.kit.stack import Stack
from kitctl.watch.canary import CanaryAnswer, accept_length, judge_canary


class CanarySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``kitctl/data/canary.toml``."""

    max_tokens: int
    prompts: tuple[str, ...]


class CanaryReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked, what came, and what is wrong with it; goes into the run record."""

    answers: tuple[CanaryAnswer, ...]
    accept_length: float | None
    findings: tuple[Finding, ...]


def run_canary(target: Target, stack: Stack, first: Answer, *, say: Callable[[str], None]) -> CanaryReport:
    """Judge the first answer, and those to the stack's own prompts or, where it states nothing, to the kit's."""
    settings = msgspec.convert(tomllib.loads(package_text("canary.toml")), CanarySettings)
    answers = [_answer_to(target.prompt, first)]
    for prompt in _prompts(stack, settings):
        got = _ask(target, prompt, max_tokens=settings.max_tokens, counted=stack.drafter is not None)
        if got.failure is None:
            answers.append(_answer_to(prompt, got))
        else:
            say(f"canary: {got.failure}")
    asked = tuple(answers)
    findings = judge_canary(
        asked, stack.expect, served_model=target.model, has_drafter=stack.drafter is not None
    )
    return CanaryReport(answers=asked, accept_length=accept_length(asked), findings=findings)


def _prompts(stack: Stack, settings: CanarySettings) -> tuple[str, ...]:
    """What is asked after the first question. One answer alone is enough only where there is no drafter to judge."""
    expect = stack.expect
    if expect.prompts or expect.prompt is None:
        return expect.prompts or settings.prompts
    return (expect.prompt,) if stack.drafter else ()


def _ask(target: Target, prompt: str, *, max_tokens: int, counted: bool) -> Answer:
    """An answer as chat gives it; as plain text where verify passes must be ``counted`` and chat does not tell them."""
    got = ask(target.url, model=target.model, prompt=prompt, max_tokens=max_tokens, api_key=target.api_key)
    if got.failure is None and (got.verify_passes is not None or not counted):
        return got
    return generate(target.url, prompt=prompt, max_tokens=max_tokens, api_key=target.api_key)


def _answer_to(prompt: str, answer: Answer) -> CanaryAnswer:
    return CanaryAnswer(
        prompt=prompt,
        text=answer.text,
        model=answer.model,
        tokens=answer.completion_tokens,
        verify_passes=answer.verify_passes,
    )
