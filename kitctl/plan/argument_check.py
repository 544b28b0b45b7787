"""Does the pinned engine itself accept a plan's launch line? The question put to its image, and the answer.

SGLang resolves its arguments without weights, given each model's config.json (SGLang 0.5.16,
srt/server_args.py prepare_server_args and check_server_args).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kitctl.finding import Finding, Severity
from kitctl.kit.image_record import SmokeCheck
from kitctl.plan.types import Plan


@dataclass(frozen=True, kw_only=True)
class Imitated:
    """The GPUs whose answers the engine's probes get: compute capability, how many, memory of each in MiB."""

    arch: str
    gpus: int
    memory_mib: int


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine said to one launch line. ``arch`` is ``None`` for a case without GPUs.

    ``resolved``: the settings that it chose itself; ``error``: its own words when it refused.
    """

    name: str
    arch: str | None
    ok: bool
    error: str
    resolved: dict[str, Any]
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0


def argument_case(plan: Plan, *, configs: Mapping[str, str], imitated: Imitated | None) -> dict[str, object]:
    """One case of the question; ``configs`` maps a model's folder in the container to its config.json's text."""
    return {
        "name": plan.stack.name,
        "argv": list(plan.argv),
        "environment": dict(plan.environment),
        "files": {f"{folder}/config.json": text for folder, text in configs.items()},
        "arch": imitated.arch if imitated else None,
        "gpus": imitated.gpus if imitated else 0,
        "memory_mib": imitated.memory_mib if imitated else 0,
    }


def argument_question(cases: Sequence[Mapping[str, object]]) -> str:
    """The JSON argument of the program inside the image."""
    return json.dumps({"cases": list(cases)})


def read_answers(output: str) -> tuple[Answer, ...]:
    """The answers that the program printed; other lines are the engine's chatter."""
    found = (_answer(line) for line in output.splitlines() if line.startswith("{"))
    return tuple(answer for answer in found if answer is not None)


def _answer(line: str) -> Answer | None:
    try:
        return msgspec.json.decode(line, type=Answer)
    except msgspec.MsgspecError:
        return None


def answer_findings(answers: Sequence[Answer], *, asked: int, ended: str | None) -> tuple[Finding, ...]:
    """A block for each refusal, a note for each deprecated flag, a block when answers are missing."""
    findings = [_refusal(answer) for answer in answers if not answer.ok]
    findings.extend(_deprecation(answer, said) for answer in answers for said in answer.warnings)
    if len(answers) < asked:
        findings.append(
            Finding(
                code="arguments-unanswered",
                severity=Severity.BLOCK,
                cause=f"{asked - len(answers)} of {asked} launch lines got no answer inside the image",
                evidence=(ended,) if ended else (),
                remedy="kitctl images smoke: the image itself may be broken",
            )
        )
    return tuple(dict.fromkeys(findings))


def _refusal(answer: Answer) -> Finding:
    on = f" on {answer.arch}" if answer.arch else ""
    return Finding(
        code="arguments-refused",
        severity=Severity.BLOCK,
        cause=f"the engine refuses the launch line of {answer.name}{on}: {answer.error}",
        where=f"stacks/{answer.name}.yaml",
        remedy=f"mend the setting or flag that it names in the stack {answer.name}",
    )


def _deprecation(answer: Answer, said: str) -> Finding:
    return Finding(
        code="arguments-deprecated",
        severity=Severity.NOTE,
        cause=f"the engine warns of {answer.name}'s launch line: {said}",
        where=f"stacks/{answer.name}.yaml",
        remedy="nothing now; the flag goes in a later release",
    )


def answer_lines(answers: Sequence[Answer]) -> tuple[str, ...]:
    """Each answer for a person: accepted with what the engine chose, or refused with its words."""
    return tuple(
        f"{answer.name:14} {answer.arch or 'cpu':5} {'accepted' if answer.ok else 'REFUSED '}  "
        + (
            " ".join(f"{key}={value}" for key, value in answer.resolved.items())
            if answer.ok
            else answer.error
        )
        for answer in answers
    )


def launch_line_checks(
    answers: Sequence[Answer], findings: Sequence[Finding], *, seconds: float
) -> tuple[SmokeCheck, ...]:
    """One smoke check for each stack, over all archs; one more when answers are missing.

    ``seconds`` is the time of all together and is shared out evenly.
    """
    names = list(dict.fromkeys(answer.name for answer in answers))
    share = round(seconds / max(len(names), 1), 2)
    checks = [_stack_check(name, [one for one in answers if one.name == name], share) for name in names]
    missing = [finding for finding in findings if finding.code == "arguments-unanswered"]
    checks.extend(
        SmokeCheck(
            name="launch-lines", ok=False, detail=f"{one.cause}: {' '.join(one.evidence)}", seconds=share
        )
        for one in missing
    )
    return tuple(checks)


def _stack_check(name: str, answers: Sequence[Answer], seconds: float) -> SmokeCheck:
    refused = [answer for answer in answers if not answer.ok]
    if refused:
        detail = f"refused on {refused[0].arch or 'cpu'}: {refused[0].error}"
    else:
        kinds = [
            f"{answer.arch or 'cpu'} {answer.resolved.get('attention_backend', '?')}" for answer in answers
        ]
        detail = f"accepted ({', '.join(kinds)})"
    return SmokeCheck(name=f"launch-line {name}", ok=not refused, detail=detail, seconds=seconds)
