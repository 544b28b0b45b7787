"""Which questions are asked, and which earlier result of the same questions is compared with?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kitctl.bench.failed import kinds_text
from kitctl.bench.prompts import PromptSet, read_prompt_set
from kitctl.commands.result_reading import read_quality
from kitctl.edge.files import read_text
from kitctl.edge.package_data import package_set
from kitctl.errors import Exit, KitError


def question_set(name: str) -> PromptSet:
    """The kit's questions or a file's. Raises KitError ``no-answers`` (exit 2) when one cannot be scored."""
    text = package_set("quality", name)
    dataset = read_prompt_set(name, text if text is not None else read_text(name))
    bare = next((prompt.id for prompt in dataset.prompts if prompt.answer is None), None)
    if bare is None:
        return dataset
    raise KitError(
        "no-answers",
        f"{name}: question {bare} has no answer to score against",
        remedy='give every line an "answer" (and "match": "number", "text" or "exact")',
        exit_code=Exit.USAGE,
    )


def earlier_result(path: str, dataset: PromptSet, settings: Mapping[str, float]) -> dict[str, Any]:
    """An earlier result of the same questions.

    Raises KitError (exit 2): ``bad-result``, ``other-questions``, ``other-settings`` for one that says to have been
    taken with other ``settings``, ``failed-baseline`` for one with questions that got no answer.
    """
    found = read_quality(path)
    if found["dataset"]["sha256"] == dataset.sha256:
        if found.get("failed"):
            raise _failed_baseline(path, found)
        odd = next((key for key, now in settings.items() if found.get(key) not in (None, now)), None)
        if odd is not None:
            raise _other_settings(path, odd, found[odd], settings[odd])
        return found
    raise KitError(
        "other-questions",
        f"{path} is not a result of the same questions",
        remedy="give a file that kitctl quality -o wrote with the same --dataset",
        exit_code=Exit.USAGE,
    )


def _other_settings(path: str, key: str, then: float, now: float) -> KitError:
    option = f"--{key.replace('_', '-')}"
    return KitError(
        "other-settings",
        f"{path} was taken with {option} {then:g}, and this would be with {now:g}",
        remedy=f"give {option} {then:g}, or take the earlier result again with {now:g}",
        exit_code=Exit.USAGE,
    )


def _failed_baseline(path: str, found: dict[str, Any]) -> KitError:
    return KitError(
        "failed-baseline",
        f"{path} cannot be compared with: {found['failed']} of its questions got no answer",
        evidence=(f"failed: {kinds_text(found.get('failed_kinds', {}))}",),
        remedy="take it again (kitctl quality -o ANOTHER FILE) on a server that answers, and give that to --against",
        exit_code=Exit.USAGE,
    )
