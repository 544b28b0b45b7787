"""Which prompts shall be sent? The kit's own set, user files (JSON Lines, ShareGPT), random token ids, random words."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from kitctl.errors import Exit, KitError
from kitctl.kit.json_text import parse_json


class Match(StrEnum):
    """How an answer is held against the right one: as a number, by its words, or letter for letter."""

    NUMBER = "number"
    TEXT = "text"
    EXACT = "exact"


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt. Exactly one of ``messages``, ``text`` and ``ids`` is given; ``answer`` only in scored sets.

    ``as_is``: a load asks it without a case number before it, for a model that would not know it with one.
    """

    id: str
    category: str = "user"
    messages: tuple[dict[str, str], ...] | None = None
    text: str | None = None
    ids: tuple[int, ...] | None = None
    max_tokens: int | None = None
    answer: str | None = None
    match: Match = Match.NUMBER
    as_is: bool = False


class PromptSet(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts with the name and SHA-256 of the file they come from."""

    name: str
    sha256: str
    prompts: tuple[Prompt, ...]


def read_prompt_set(name: str, text: str) -> PromptSet:
    """Read JSON Lines or a ShareGPT JSON array.

    A line is ``{"prompt": ...}`` or ``{"messages": [...]}`` (also ``{"text": ...}``), with optional ``id``,
    ``category``, ``max_tokens``, ``answer``, ``match``, ``as_is``; a ShareGPT entry gives its first human turn.
    Raises KitError ``bad-prompts`` (exit 2) that names the line.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()
    entries = _entries(name, text)
    prompts = tuple(_prompt(name, number, entry) for number, entry in enumerate(entries, start=1))
    if not prompts:
        raise _bad(name, "it holds no prompt")
    return PromptSet(name=name, sha256=digest, prompts=prompts)


def _entries(name: str, text: str) -> list[Any]:
    if text.lstrip().startswith("["):
        try:
            entries: list[Any] = parse_json(text)
        except json.JSONDecodeError as broken:
            raise _bad(name, str(broken)) from broken
        return [entry for entry in entries if not isinstance(entry, dict) or entry.get("conversations") != []]
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            found.append(parse_json(line))
        except json.JSONDecodeError as broken:
            raise _bad(name, f"line {number}: {broken}") from broken
    return found


_OPTIONAL = ("category", "max_tokens", "answer", "match", "as_is")


def _prompt(name: str, number: int, entry: Any) -> Prompt:
    if not isinstance(entry, dict):
        raise _bad(name, f"entry {number} is not an object")
    fields = {key: entry[key] for key in _OPTIONAL if entry.get(key) is not None}
    messages = entry.get("messages") or _human_turn(entry.get("conversations"))
    if messages is None and isinstance(entry.get("prompt") or entry.get("text"), str):
        messages = [{"role": "user", "content": entry.get("prompt") or entry["text"]}]
    if messages is None:
        raise _bad(name, f"entry {number} has none of prompt, messages, text, conversations")
    raw = {"id": str(entry.get("id", number)), "messages": messages, **fields}
    try:
        return msgspec.convert(raw, Prompt)
    except msgspec.ValidationError as wrong:
        raise _bad(name, f"entry {number}: {wrong}") from wrong


def _human_turn(conversations: Any) -> list[dict[str, str]] | None:
    for turn in conversations if isinstance(conversations, list) else ():
        if isinstance(turn, dict) and turn.get("from") in ("human", "user"):
            return [{"role": "user", "content": str(turn.get("value", ""))}]
    return None


def _bad(name: str, why: str) -> KitError:
    return KitError(
        "bad-prompts",
        f"{name} is not a prompt set: {why}",
        remedy='give one JSON object a line, as {"prompt": "..."} or {"messages": [...]}; for quality "answer": "..."',
        exit_code=Exit.USAGE,
    )


def seed_of(*parts: object) -> int:
    """A seed that depends on all parts, so that no two points share prompts."""
    text = "|".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def random_ids(rng: random.Random, *, count: int, tokens: int, low: int, high: int) -> tuple[Prompt, ...]:
    """``count`` prompts of exactly ``tokens`` token ids from ``low`` up to, not including, ``high``."""
    choices = range(low, high)
    return tuple(
        Prompt(id=str(number), category="random", ids=tuple(rng.choices(choices, k=tokens)))
        for number in range(count)
    )


def random_words(rng: random.Random, words: Sequence[str], *, count: int, tokens: int) -> tuple[Prompt, ...]:
    """``count`` prompts of ``tokens`` random words, for servers that take no token ids; about a token a word."""
    return tuple(
        Prompt(id=str(number), category="random", text=" ".join(rng.choices(words, k=tokens)))
        for number in range(count)
    )


def deal(rng: random.Random, prompts: Sequence[Prompt], *, count: int) -> tuple[Prompt, ...]:
    """``count`` prompts in random order, each as often as any other; each begins with a case number of its own.

    The number keeps the prefix cache from answering a prompt that recurs; a prompt that is asked as it is has none.
    """
    dealt: list[Prompt] = []
    while len(dealt) < count:
        order = list(prompts)
        rng.shuffle(order)
        dealt.extend(order)
    return tuple(_numbered(prompt, f"{rng.getrandbits(48):012x}") for prompt in dealt[:count])


def _numbered(prompt: Prompt, number: str) -> Prompt:
    if prompt.as_is:
        return prompt
    if prompt.messages is None:
        return msgspec.structs.replace(prompt, text=f"Case {number}. {prompt.text}")
    first, *others = prompt.messages
    numbered = {**first, "content": f"Case {number}.\n\n{first['content']}"}
    return msgspec.structs.replace(prompt, messages=(numbered, *others))


def words_of(prompts: Sequence[Prompt]) -> tuple[str, ...]:
    """The plain lower-case words of a prompt set, sorted."""
    texts = (message["content"] for prompt in prompts for message in prompt.messages or ())
    return tuple(sorted({w for text in texts for w in text.split() if w.isalpha() and w.islower()}))
