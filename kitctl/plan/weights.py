"""How many bytes of weights does each GPU hold? Sharding by tp, ep and pp, and weights computed from config.json.

Sharding rules: SGLang 0.5.16, held against the parameters of real runs on H200 (exact to the byte).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil

from kitctl.kit.drafter_facts import DrafterFacts, DrafterKind
from kitctl.kit.model_facts import ModelFacts, Quantization
from kitctl.kit.tensor_index import Role, Weights, WeightSum
from kitctl.plan.memory_data import MemoryData, VisionDefault

FULL = 2.0
SHAPE_BYTES = 24
SHAPE_KEPT = 3
NVFP4_GROUP = 16
VISION_ROLES = (Role.VISION, Role.VISION_SPLIT)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a model is spread. ``attention_tp`` is tp, or tp / dp under DP attention."""

    tp: int
    ep: int
    pp: int
    attention_tp: int
    kv_heads: int
    vocab_size: int
    vocab_padding: int
    layers: int


def stage_layers(layers: int, pp: int) -> tuple[range, ...]:
    """The layers of each pipeline stage; the last stages take the remainder.

    Source: SGLang 0.5.16, distributed/utils.py: get_pp_indices.
    """
    base, remainder = divmod(layers, pp)
    stages, start = [], 0
    for stage in range(pp):
        size = base + (1 if stage >= pp - remainder else 0)
        stages.append(range(start, start + size))
        start += size
    return tuple(stages)


def stage_bytes(weights: Weights, layout: Layout) -> tuple[dict[Role, int], ...]:
    """Bytes by role that one GPU of each pipeline stage holds."""
    return tuple(
        _sum_stage(weights, layout, stage=stage, held=held)
        for stage, held in enumerate(stage_layers(layout.layers, layout.pp))
    )


def _sum_stage(weights: Weights, layout: Layout, *, stage: int, held: range) -> dict[Role, int]:
    sums: dict[Role, int] = {}
    for part in weights.sums:
        times = 0 if part.role is Role.DROPPED else _times_held(part, layout, stage=stage, held=held)
        if times:
            size = times * share_bytes(part.role, part.each_bytes, layout)
            sums[part.role] = sums.get(part.role, 0) + size
    return sums


def _times_held(part: WeightSum, layout: Layout, *, stage: int, held: range) -> int:
    """How many times a stage holds the part: once for each of its layers."""
    if part.role is Role.VOCAB_IN or part.role in VISION_ROLES:
        return int(stage == 0)
    if part.layers is None:
        return int(stage == layout.pp - 1)
    return len(part.layers) if layout.pp == 1 else sum(1 for layer in part.layers if layer in held)


def share_bytes(role: Role, size_bytes: int, layout: Layout) -> int:
    """What one GPU holds of ``size_bytes`` of a role."""
    match role:
        case Role.ATTENTION | Role.KV_B:
            return ceil(size_bytes / layout.attention_tp)
        case Role.KV:
            kept = max(1, layout.kv_heads // layout.attention_tp)
            return ceil(size_bytes * kept / layout.kv_heads)
        case Role.SPLIT | Role.VISION_SPLIT:
            return ceil(size_bytes / layout.tp)
        case Role.VOCAB_IN | Role.VOCAB_OUT:
            padded = ceil(layout.vocab_size / layout.vocab_padding) * layout.vocab_padding
            return ceil(size_bytes * padded / layout.vocab_size / layout.tp)
        case Role.EXPERT:
            return ceil(size_bytes / layout.tp)
        case Role.EXPERT_SHAPE:
            return ceil(size_bytes / SHAPE_KEPT / layout.ep)
        case Role.REPLICATED | Role.VISION:
            return size_bytes
        case Role.DROPPED:
            return 0


def computed_weights(model: ModelFacts, *, data: MemoryData) -> Weights:
    """The weights of a target, computed from its config.json (BF16 where it is not quantized)."""
    known = data.weights.method_bits
    sums = [*_outside_layers(model), *_vision(model, data)]
    sparse = model.experts.layer_ids if model.experts else ()
    dense = tuple(layer for layer in range(model.layers) if layer not in set(sparse))
    for layers, mlp in ((dense, _dense), (sparse, _moe)):
        if layers:
            each = (*_attention(model, known), *mlp(model, known))
            sums += [WeightSum(role=role, layers=layers, each_bytes=size) for role, size in each]
    return Weights(sums=tuple(sums), source="computed from config.json")


def computed_drafter_weights(drafter: DrafterFacts, *, captured: int) -> Weights:
    """The weights of a drafter: its layers, ``fc`` over the captured layers, its norms and an own head.

    A DFlash drafter drafts through the target's embedding and head (SGLang 0.5.16, models/dflash.py; exact on
    H200). An EAGLE3 drafter attends to two inputs side by side and has a head of its own (llama_eagle3.py).
    """
    hidden, head = drafter.hidden_size, drafter.head_dim
    is_eagle = drafter.kind in (DrafterKind.EAGLE, DrafterKind.EAGLE3)
    inputs = 2 * hidden if drafter.kind is DrafterKind.EAGLE3 else hidden
    query, key = drafter.heads * head, drafter.kv_heads * head
    bias = 1 if drafter.attention_bias else 0
    layer = [
        (Role.ATTENTION, query * inputs + query * hidden + bias * query),
        (Role.KV, 2 * key * inputs + 2 * bias * key),
        (Role.SPLIT, 3 * hidden * drafter.intermediate_size),
        (Role.REPLICATED, 2 * head + 2 * hidden),
    ]
    layers = tuple(range(drafter.layers))
    sums = [WeightSum(role=role, layers=layers, each_bytes=int(count * FULL)) for role, count in layer]
    joined = {DrafterKind.EAGLE: 2, DrafterKind.EAGLE3: 3}.get(drafter.kind, captured)
    outside = int((joined * hidden * hidden + 2 * hidden) * FULL)
    sums.append(WeightSum(role=Role.REPLICATED, layers=None, each_bytes=outside))
    if is_eagle and drafter.draft_vocab_size:
        own = int(drafter.draft_vocab_size * hidden * FULL)
        sums.append(WeightSum(role=Role.SPLIT, layers=None, each_bytes=own))
    return Weights(sums=tuple(sums), source="computed from the drafter's config.json")


def _outside_layers(model: ModelFacts) -> Iterator[WeightSum]:
    table = int(model.vocab_size * model.hidden_size * FULL)
    yield WeightSum(role=Role.VOCAB_IN, layers=None, each_bytes=table)
    if not model.tied_embeddings:
        yield WeightSum(role=Role.VOCAB_OUT, layers=None, each_bytes=table)
    yield WeightSum(role=Role.REPLICATED, layers=None, each_bytes=int(model.hidden_size * FULL))


def _attention(model: ModelFacts, known: Mapping[str, int]) -> Iterator[tuple[Role, int]]:
    hidden, mla = model.hidden_size, model.mla
    each = _bytes_each(model.quantization, "model.layers.1.self_attn.q_proj", known)
    yield Role.REPLICATED, int(2 * hidden * FULL)
    if mla is None:
        yield from _grouped_attention(model, each)
        return
    rank, query = mla.kv_lora_rank, mla.qk_nope_head_dim + mla.qk_rope_head_dim
    low = mla.q_lora_rank
    yield Role.REPLICATED, int(((low or 0) + rank + mla.qk_rope_head_dim) * hidden * each)
    yield Role.REPLICATED, int(((low or 0) + rank) * FULL)
    wide = model.heads * query * (low or hidden) + hidden * model.heads * mla.v_head_dim
    yield Role.ATTENTION, int(wide * each)
    yield Role.KV_B, int(model.heads * (mla.qk_nope_head_dim + mla.v_head_dim) * rank * each)


def _grouped_attention(model: ModelFacts, each: float) -> Iterator[tuple[Role, int]]:
    hidden, head = model.hidden_size, model.head_dim
    query, key = model.heads * head, model.kv_heads * head
    yield Role.ATTENTION, int((query * hidden + hidden * model.heads * model.v_head_dim) * each)
    yield Role.KV, int(2 * key * hidden * each)
    if model.attention_bias:
        yield Role.ATTENTION, int(query * FULL)
        yield Role.KV, int(2 * key * FULL)
    if model.qk_norm:
        yield Role.REPLICATED, int(2 * head * FULL)


def _dense(model: ModelFacts, known: Mapping[str, int]) -> Iterator[tuple[Role, int]]:
    each = _bytes_each(model.quantization, "model.layers.1.mlp.gate_proj", known)
    yield Role.SPLIT, int(3 * model.hidden_size * model.intermediate_size * each)


def _moe(model: ModelFacts, known: Mapping[str, int]) -> Iterator[tuple[Role, int]]:
    experts, quant = model.experts, model.quantization
    assert experts is not None
    hidden = model.hidden_size
    yield Role.REPLICATED, int(experts.count * hidden * FULL) + (4 * experts.count if model.mla else 0)
    if experts.shared_width:
        each = _bytes_each(quant, "model.layers.1.mlp.shared_experts.gate_proj", known)
        yield Role.SPLIT, int(3 * hidden * experts.shared_width * each)
    each = _bytes_each(quant, "model.layers.1.mlp.experts.1.gate_proj", known)
    yield Role.EXPERT, int(experts.count * 3 * hidden * experts.width * each)
    if quant and quant.format == "pack-quantized":
        yield Role.EXPERT_SHAPE, SHAPE_BYTES * experts.count


def _bytes_each(quant: Quantization | None, module: str, known: Mapping[str, int]) -> float:
    """Bytes a weight of ``module``, scales included."""
    if quant is None or is_ignored(quant, module):
        return FULL
    bits = quant.bits or known.get(quant.format or "") or known.get(quant.method) or 16
    scales = 0.0
    if quant.block:
        scales = 4 / (quant.block[0] * quant.block[1])
    elif bits < 8:
        scales = (
            1 / NVFP4_GROUP if "FP4" in (quant.format or "").upper() else FULL / (quant.group_size or 128)
        )
    return bits / 8 + scales


def is_ignored(quant: Quantization, module: str) -> bool:
    """Whether the quantization leaves ``module`` in full precision (``re:`` patterns, names, name parts)."""
    for pattern in quant.ignore:
        if pattern.startswith("re:"):
            if re.match(pattern[3:], module):
                return True
        elif pattern.strip("*.") and pattern.strip("*.") in module:
            return True
    return False


def vision_of(model: ModelFacts, data: MemoryData) -> VisionDefault | None:
    """The vision tower: what config.json states, filled up by what SGLang's own class assumes."""
    base = data.vision.get(model.architecture)
    stated = model.vision
    if stated is None:
        return base
    hidden = stated.hidden_size or (base.hidden_size if base else None)
    layers = stated.layers or (base.layers if base else None)
    if hidden is None or layers is None:
        return base
    return VisionDefault(
        layers=layers,
        hidden_size=hidden,
        heads=stated.heads or (base.heads if base else 1),
        intermediate_size=stated.intermediate_size or (base.intermediate_size if base else 4 * hidden),
        patch=base.patch if base else 14,
        positions=base.positions if base else 0,
        merged=base.merged if base else 4,
    )


def _vision(model: ModelFacts, data: MemoryData) -> Iterator[WeightSum]:
    """Tower and projector of the MoonViT kind (SGLang 0.5.16, models/kimi_k25.py)."""
    tower = vision_of(model, data)
    if tower is None:
        return
    hidden, inner, wide = tower.hidden_size, tower.intermediate_size, tower.merged * tower.hidden_size
    block = 2 * hidden * inner + inner + hidden + 4 * hidden + hidden
    patches = hidden * (3 * tower.patch**2 + 1) + tower.positions * hidden + 2 * hidden
    projector = 2 * hidden + wide * wide + wide + model.hidden_size * (wide + 1)
    whole = tower.layers * block + patches + projector
    split = tower.layers * (4 * hidden * hidden + 3 * hidden)
    yield WeightSum(role=Role.VISION, layers=None, each_bytes=int(whole * FULL))
    yield WeightSum(role=Role.VISION_SPLIT, layers=None, each_bytes=int(split * FULL))
