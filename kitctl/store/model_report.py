"""What is this model: how is its shape told, to a person and to a program?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from kitctl.kit.drafter_facts import DrafterFacts, read_drafter_facts
from kitctl.kit.model_facts import Attention, ModelFacts, read_model_facts
from kitctl.kit.models_lock import LockState, ModelEntry
from kitctl.store.sizes import size_text

_BF16_BYTES = 2
_DRAFTER_MARKS = ("dflash_config", "eagle_config")


@dataclass(frozen=True, kw_only=True)
class Inspected:
    """A model as its config.json and headers show it. ``bytes_by_dtype`` is ``None`` when no header was read.

    ``origin`` says where the facts come from: the files, models.lock, or the hub.
    """

    name: str
    origin: str
    facts: ModelFacts | DrafterFacts
    bytes_by_dtype: Mapping[str, int] | None
    size_bytes: int | None


def read_facts(config_json: str, *, source: str, is_drafter: bool) -> ModelFacts | DrafterFacts:
    """The facts of a target or drafter. Raises KitError ``model-config`` (exit 2)."""
    if is_drafter or looks_like_drafter(config_json):
        return read_drafter_facts(config_json, source=source)
    return read_model_facts(config_json, source=source)


def stated_config(entry: ModelEntry) -> tuple[str, str]:
    """The config.json that stands for a model whose files are not there, and where it comes from."""
    match entry.state:
        case LockState.RECONSTRUCTED:
            return entry.config_json or "", "models.lock, reconstructed from public sources"
        case LockState.LOCKED | LockState.LOCAL | LockState.SHIPPED:
            return entry.config_json or "", "models.lock"


def looks_like_drafter(config_json: str) -> bool:
    """Whether a config.json describes a drafter: it says how it drafts, or its architecture's name does."""
    try:
        config = json.loads(config_json)
    except (ValueError, RecursionError):
        return False
    if not isinstance(config, dict):
        return False
    names = config.get("architectures") or []
    text = " ".join(map(str, names)) if isinstance(names, list) else ""
    return any(mark in config for mark in _DRAFTER_MARKS) or "Draft" in text or "Eagle" in text


def kv_bytes_per_token(facts: ModelFacts | DrafterFacts) -> int:
    """Bytes of keys and values that one token takes in BF16, over all layers and before any split over GPUs.

    MLA: layers x (kv_lora_rank + qk_rope_head_dim); otherwise layers x 2 x KV heads x head size.
    """
    if isinstance(facts, DrafterFacts):
        return facts.layers * 2 * facts.kv_heads * facts.head_dim * _BF16_BYTES
    layers = len(facts.kv_layer_ids)
    if facts.mla:
        return layers * (facts.mla.kv_lora_rank + facts.mla.qk_rope_head_dim) * _BF16_BYTES
    return layers * facts.kv_heads * (facts.head_dim + facts.v_head_dim) * _BF16_BYTES


def inspect_json(model: Inspected) -> dict[str, object]:
    """The contract ``kitctl.models-inspect/1``: the shape's fields as they are, and what follows from them."""
    return {
        "schema": "kitctl.models-inspect/1",
        "name": model.name,
        "origin": model.origin,
        "kind": "drafter" if isinstance(model.facts, DrafterFacts) else "target",
        "size_bytes": model.size_bytes,
        "bytes_by_dtype": model.bytes_by_dtype,
        "kv_bytes_per_token_bf16": kv_bytes_per_token(model.facts),
        "facts": asdict(model.facts),
    }


def inspect_lines(model: Inspected) -> tuple[str, ...]:
    """The same for a person."""
    facts = model.facts
    rows = [("architecture", facts.architecture), ("layers", _layers_text(facts))]
    rows += _target_rows(facts) if isinstance(facts, ModelFacts) else _drafter_rows(facts)
    rows.append(("KV per token", f"{kv_bytes_per_token(facts)} bytes in BF16"))
    if model.bytes_by_dtype:
        sums = ", ".join(f"{name} {size_text(count)}" for name, count in model.bytes_by_dtype.items())
        rows.append(("weights", sums))
    if model.size_bytes is not None:
        rows.append(("size", size_text(model.size_bytes)))
    rows.append(("facts from", model.origin))
    return (model.name, *(f"  {name:14} {value}" for name, value in rows))


def _layers_text(facts: ModelFacts | DrafterFacts) -> str:
    width = f"hidden size {facts.hidden_size}"
    if isinstance(facts, DrafterFacts) or not facts.experts:
        return f"{facts.layers}, {width}"
    return f"{facts.layers}: {facts.dense_layers} dense, {facts.moe_layers} with experts, {width}"


def _target_rows(facts: ModelFacts) -> list[tuple[str, str]]:
    rows = [("attention", f"{facts.attention}, {_heads_text(facts)}")]
    if facts.experts:
        shared = f", {facts.experts.shared_count} shared" if facts.experts.shared_count else ""
        rows.append(("experts", f"{facts.experts.count} routed, {facts.experts.per_token} per token{shared}"))
    rows.append(("quantization", _quantization_text(facts)))
    rows.append(("context", str(facts.context_length or "not stated")))
    rows.append(("vocabulary", str(facts.vocab_size)))
    return rows


def _heads_text(facts: ModelFacts) -> str:
    if facts.attention is Attention.MLA and facts.mla:
        return f"{facts.heads} heads, latent {facts.mla.kv_lora_rank} + {facts.mla.qk_rope_head_dim}"
    return f"{facts.heads} heads, {facts.kv_heads} KV heads of {facts.head_dim}"


def _quantization_text(facts: ModelFacts) -> str:
    found = facts.quantization
    if found is None:
        return f"none, {facts.dtype or 'data type not stated'}"
    bits = f", {found.bits} bits" if found.bits else ""
    group = f", groups of {found.group_size}" if found.group_size else ""
    return f"{found.method}{bits}{group}"


def _drafter_rows(facts: DrafterFacts) -> list[tuple[str, str]]:
    taps = ", ".join(map(str, facts.target_layer_ids)) if facts.target_layer_ids is not None else "not stated"
    return [
        ("drafter", str(facts.kind)),
        ("block size", str(facts.block_size or "not stated")),
        ("target layers", taps),
        ("mask token", str(facts.mask_token_id if facts.mask_token_id is not None else facts.mask_token)),
        ("attention", f"{facts.heads} heads, {facts.kv_heads} KV heads of {facts.head_dim}"),
        ("context", str(facts.context_length or "not stated")),
    ]
