"""Ask a fresh stack a few real questions and judge what it says."""

from __future__ import annotations

import tomllib
from collections.abc import Callable

import msgspec

from kitctl.commands.starting import Target
from kitctl.edge.package_data import package_text
from kitctl.edge.serving import Answer, generate
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
    """Judge the first answer and, where the stack states none of its own, answers to the kit's prompts."""
    settings = msgspec.convert(tomllib.loads(package_text("canary.toml")), CanarySettings)
    own = (stack.expect.prompt,) if stack.expect.prompt else ()
    answers = [_first(target, first)]
    wanted = settings.prompts if not own else own if stack.drafter else ()
    for prompt in wanted:
        got = generate(target.url, prompt=prompt, max_tokens=settings.max_tokens, api_key=target.api_key)
        if got.failure is None:
            answers.append(
                CanaryAnswer(
                    prompt=prompt,
                    text=got.text,
                    model=None,
                    tokens=got.completion_tokens,
                    verify_passes=got.verify_passes,
                )
            )
        else:
            say(f"canary: {got.failure}")
    asked = tuple(answers)
    findings = judge_canary(
        asked, stack.expect, served_model=target.model, has_drafter=stack.drafter is not None
    )
    return CanaryReport(answers=asked, accept_length=accept_length(asked), findings=findings)


def _first(target: Target, first: Answer) -> CanaryAnswer:
    return CanaryAnswer(
        prompt=target.prompt,
        text=first.text,
        model=first.model,
        tokens=first.completion_tokens,
    )
