"""Does the drafter change the answers? Greedy ones with it against those without, judged by the plain server's noise.

Equal answers are not to be expected: verifying a block runs other kernels and shapes than decoding does, and a near tie
between two tokens may fall either way. So the plain server is compared with itself first (alone against in a batch),
and at the first differing token its own two best candidates are looked at: a small gap is such a tie, a clear gap is a
token that it would not have chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from kitctl.bench.answers import Record

TIE_NATS = 0.2


class Kind(StrEnum):
    """What a first difference is: a near tie, a token that was clearly not the best, or not known."""

    TIE = "tie"
    CLEAR = "clear"
    UNKNOWN = "unknown"


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """The first difference of two answers. ``gap_nats``: how much likelier the plain server held its own token."""

    prompt: str
    position: int
    kind: Kind
    gap_nats: float | None


class Parity(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict: ``equal``, ``within-noise``, ``broken`` or ``unclear`` (differences without log probabilities)."""

    prompts: int
    verdict: str
    divergences: tuple[Divergence, ...]
    floor: tuple[Divergence, ...]
    by_tokens: bool


def first_difference(left: Sequence[object], right: Sequence[object]) -> int | None:
    """The first place at which two sequences differ, ``None`` when they are the same."""
    for place, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return place
    return min(len(left), len(right)) if len(left) != len(right) else None


def divergence_of(prompt: str, plain: Record, other: Record) -> Divergence | None:
    """The first difference of ``other`` from ``plain``, which may carry log probabilities."""
    by_tokens = plain.output_ids is not None and other.output_ids is not None
    left: Sequence[object] = plain.output_ids or () if by_tokens else plain.text
    right: Sequence[object] = other.output_ids or () if by_tokens else other.text
    place = first_difference(left, right)
    if place is None:
        return None
    gap = None
    if by_tokens and place < len(right):
        gap = _gap_nats(plain.meta or {}, place, right[place])
    kind = Kind.UNKNOWN if gap is None else Kind.TIE if gap < TIE_NATS else Kind.CLEAR
    return Divergence(prompt=prompt, position=place, kind=kind, gap_nats=gap)


def _gap_nats(meta: dict[str, Any], place: int, token: object) -> float | None:
    """Log probability of the best token less that of ``token``; at least the gap to the last candidate."""
    tops = meta.get("output_top_logprobs")
    if not isinstance(tops, list) or place >= len(tops) or not tops[place]:
        return None
    candidates = [(float(entry[0]), entry[1]) for entry in tops[place]]
    best = max(logprob for logprob, _ in candidates)
    own = [logprob for logprob, candidate in candidates if candidate == token]
    return best - (own[0] if own else min(logprob for logprob, _ in candidates))


def judge_parity(
    prompts: Sequence[str], plain: Sequence[Record], again: Sequence[Record], drafted: Sequence[Record]
) -> Parity:
    """Compare ``drafted`` with ``plain``, and ``again`` (the plain server in a batch) with ``plain`` as the floor."""
    found = _all(prompts, plain, drafted)
    floor = _all(prompts, plain, again)
    by_tokens = all(record.output_ids is not None for record in (*plain, *drafted))
    return Parity(
        prompts=len(prompts),
        verdict=_verdict(found, floor),
        divergences=found,
        floor=floor,
        by_tokens=by_tokens,
    )


def _all(prompts: Sequence[str], left: Sequence[Record], right: Sequence[Record]) -> tuple[Divergence, ...]:
    pairs = zip(prompts, left, right, strict=True)
    return tuple(d for prompt, one, other in pairs if (d := divergence_of(prompt, one, other)) is not None)


def _verdict(found: Sequence[Divergence], floor: Sequence[Divergence]) -> str:
    if not found:
        return "equal"
    clear = sum(divergence.kind is Kind.CLEAR for divergence in found)
    if clear > sum(divergence.kind is Kind.CLEAR for divergence in floor):
        return "broken"
    unknown = sum(divergence.kind is Kind.UNKNOWN for divergence in found)
    if unknown > len(floor):
        return "unclear"
    return "within-noise"


def parity_lines(parity: Parity) -> tuple[str, ...]:
    """The verdict and its grounds for a person."""
    unit = "token" if parity.by_tokens else "character"
    lines = [
        f"parity: {parity.verdict}: {len(parity.divergences)} of {parity.prompts} greedy answers differ "
        f"with the drafter, {len(parity.floor)} differ without it (alone against in a batch)"
    ]
    for divergence in parity.divergences[:10]:
        gap = "gap not known" if divergence.gap_nats is None else f"gap {divergence.gap_nats:.3f} nats"
        lines.append(
            f"  {divergence.prompt}: first at {unit} {divergence.position}, {divergence.kind}, {gap}"
        )
    return tuple(lines)
