"""Which questions are asked, and which earlier result of the same questions is compared with?"""

from __future__ import annotations

from typing import Any

import msgspec

from kitctl.bench.failed import kinds_text
from kitctl.bench.prompts import PromptSet, read_prompt_set
from kitctl.bench.scoring import SCHEMA
from kitctl.edge.files import read_text
from kitctl.edge.package_data import package_text
from kitctl.errors import Exit, KitError
from kitctl.kit.json_text import decode_json


def question_set(name: str) -> PromptSet:
    """The kit's questions or a file's. Raises KitError ``no-answers`` (exit 2) when one cannot be scored."""
    text = package_text("quality/kit.jsonl") if name == "kit" else read_text(name)
    dataset = read_prompt_set(name, text)
    bare = next((prompt.id for prompt in dataset.prompts if prompt.answer is None), None)
    if bare is None:
        return dataset
    raise KitError(
        "no-answers",
        f"{name}: question {bare} has no answer to score against",
        remedy='give every line an "answer" (and "match": "number" or "text")',
        exit_code=Exit.USAGE,
    )


def earlier_result(path: str, dataset: PromptSet) -> dict[str, Any]:
    """An earlier result of the same questions.

    Raises KitError ``other-questions`` or, for one with questions that got no answer, ``failed-baseline`` (exit 2).
    """
    try:
        found: dict[str, Any] = decode_json(read_text(path), dict)
    except msgspec.DecodeError:
        found = {}
    if found.get("schema") == SCHEMA and found["dataset"]["sha256"] == dataset.sha256:
        if found.get("failed"):
            raise _failed_baseline(path, found)
        return found
    raise KitError(
        "other-questions",
        f"{path} is not a result of the same questions",
        remedy="give a file that kitctl quality -o wrote with the same --dataset",
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
