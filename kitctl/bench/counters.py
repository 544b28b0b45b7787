"""What did the server itself count? Prometheus text into the few counters that check a point."""

from __future__ import annotations

import math

import msgspec

_WANTED = {
    "generation_tokens_total": "generation_tokens",
    "prompt_tokens_total": "prompt_tokens",
    "cached_tokens_total": "cached_tokens",
    "spec_verify_calls_total": "verify_calls",
}


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over all labels of the engine's counters; ``None`` where the server has no such counter."""

    generation_tokens: float | None = None
    prompt_tokens: float | None = None
    cached_tokens: float | None = None
    verify_calls: float | None = None


def read_counters(text: str) -> Counters:
    """The counters in ``/metrics`` text, by name without the engine's prefix (``sglang:``, ``vllm:``)."""
    sums: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("#") or " " not in line:
            continue
        name = line.split("{", 1)[0].split(" ", 1)[0].rsplit(":", 1)[-1]
        field = _WANTED.get(name)
        if field is None:
            continue
        value = _number(line.rpartition("}" if "}" in line else " ")[2])
        if value is not None:
            sums[field] = sums.get(field, 0.0) + value
    if "\nsglang:generation_tokens_total" in f"\n{text}":
        # SGLang's labelled counter is not there before the first cached token.
        sums.setdefault("cached_tokens", 0.0)
    return Counters(**sums)


def _number(text: str) -> float | None:
    """The sample's value; a time stamp may follow it."""
    try:
        value = float(text.split()[0])
    except (ValueError, IndexError):
        return None
    return value if math.isfinite(value) else None


def counted_between(before: Counters, after: Counters) -> Counters:
    """What was counted between two readings; ``None`` for a counter that either lacks or that went backwards."""
    deltas: dict[str, float | None] = {}
    for name in Counters.__struct_fields__:
        old, new = getattr(before, name), getattr(after, name)
        # A labelled counter appears with its first event.
        old = 0.0 if old is None and new is not None else old
        deltas[name] = new - old if old is not None and new is not None and new >= old else None
    return Counters(**deltas)
