"""What must still be free once weights and KV pool lie in a GPU: graphs, request table, activations, logits?"""

from __future__ import annotations

from dataclasses import dataclass

from kitctl.kit.model_facts import Attention, ModelFacts
from kitctl.plan.engine_defaults import MIB, EngineSizes
from kitctl.plan.memory_data import GraphBuffers, MemoryData
from kitctl.plan.weights import vision_of

MEASURED = "measured on H200, SGLang 0.5.16"


@dataclass(frozen=True, kw_only=True)
class Amount:
    """One number of the fit: what takes it, how much, and where the number comes from."""

    name: str
    size_bytes: int
    source: str


@dataclass(frozen=True, kw_only=True)
class Settled:
    """What the engine allocates after its pools. ``optional`` are the graphs that it leaves out when little is free,
    ``skipped`` those that it would leave out here."""

    amounts: tuple[Amount, ...]
    optional_bytes: int
    skipped: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        """All of it."""
        return sum(amount.size_bytes for amount in self.amounts)


@dataclass(frozen=True, kw_only=True)
class DrafterShape:
    """What the graph buffers of a drafter depend on."""

    heads: int
    kv_head_dim: int
    layers: int


def running_requests(sizes: EngineSizes, tokens: int, data: MemoryData) -> int:
    """Requests that run at once (SGLang 0.5.16, kv_cache_configurator.py: resolve_max_num_reqs)."""
    rule = data.requests
    derived = int(tokens / max(sizes.context_length, 1) * rule.per_context)
    derived = max(min(derived, rule.most), rule.least)
    return max(0, min(sizes.max_running_requests or derived, tokens // 2))


def after_pool(
    model: ModelFacts,
    sizes: EngineSizes,
    *,
    drafter: DrafterShape | None,
    requests: int,
    multiprocessors: int,
    free_bytes: int,
    data: MemoryData,
) -> Settled:
    """What SGLang allocates after the pools, until it is ready; ``free_bytes`` is what the pools leave.

    With too little left it skips the prefill graphs and the drafter's graphs, so they are not counted then.
    """
    costs, is_mla = data.after_pool, model.attention is Attention.MLA
    row = sizes.context_length + data.requests.row_extra_tokens + (sizes.block_size if drafter else 0)
    table = Amount(
        name="table of token slots for each request",
        size_bytes=(requests + 1) * row * data.requests.bytes_per_slot,
        source=f"{requests} requests x {row} tokens x {data.requests.bytes_per_slot} B",
    )
    size = (costs.attention_mla_mib if is_mla else costs.attention_mib) * MIB
    found = [table, Amount(name="attention backend", size_bytes=size, source=MEASURED)]
    left = free_bytes - table.size_bytes - size
    optional: list[Amount] = []
    skipped: list[str] = []
    if sizes.prefill_graphs and left < costs.prefill_graphs_floor_mib * MIB:
        skipped.append("prefill graphs")
    elif sizes.prefill_graphs:
        size = (costs.prefill_graphs_mla_mib if is_mla else costs.prefill_graphs_mib) * MIB
        optional.append(Amount(name="prefill graphs", size_bytes=size, source=MEASURED))
        left -= size
    if sizes.decode_graphs:
        rows = max(1, min(sizes.graph_max_bs, requests)) * sizes.block_size
        found.append(_decode_graphs(model, sizes, rows=rows, multiprocessors=multiprocessors, data=data))
        left -= found[-1].size_bytes
        if drafter is not None and left < costs.draft_graphs_floor_mib * MIB:
            skipped.append("draft graphs")
        elif drafter is not None:
            optional.append(_draft_graphs(drafter, sizes, rows=rows, data=data))
    if vision_of(model, data):
        size = costs.api_server_mib * MIB
        found.append(Amount(name="API server (images, GPU 0)", size_bytes=size, source=MEASURED))
    return Settled(
        amounts=(*found, *optional),
        optional_bytes=sum(amount.size_bytes for amount in optional),
        skipped=tuple(skipped),
    )


def working_set(
    model: ModelFacts, sizes: EngineSizes, *, requests: int, data: MemoryData
) -> tuple[Amount, ...]:
    """What a forward pass needs at its largest, beside everything allocated."""
    rows = max(min(sizes.graph_max_bs, requests), 1) * sizes.block_size
    logits = Amount(
        name="logits",
        size_bytes=3 * rows * model.vocab_size * 4,
        source=f"{rows} rows x {model.vocab_size} x 4 B, three copies while sampling",
    )
    vision = Amount(
        name="vision tower at work",
        size_bytes=data.after_pool.vision_transient_mib * MIB,
        source="assumed; public K2.6 runs crash without it",
    )
    slack = Amount(name="fragmentation", size_bytes=data.after_pool.slack_mib * MIB, source="assumed")
    activations = Amount(
        name="activations of a prefill chunk",
        size_bytes=activation_bytes(model, sizes),
        source=f"{max(sizes.chunked_prefill_size, 1)} tokens x widths of config.json",
    )
    return (activations, logits, *((vision,) if vision_of(model, data) else ()), slack)


def activation_bytes(model: ModelFacts, sizes: EngineSizes) -> int:
    """The largest live activations of one layer for a prefill chunk, in 2-byte elements."""
    residual = 4 * model.hidden_size
    attention = 2 * model.heads // sizes.attention_tp * (model.head_dim + model.v_head_dim)
    dense = 3 * model.intermediate_size // sizes.tp
    experts = model.experts
    routed = 0
    if experts:
        width = experts.width // max(1, sizes.tp // sizes.ep)
        routed = experts.per_token * (model.hidden_size + 3 * width)
    return sizes.chunked_prefill_size * 2 * (residual + max(attention, dense, routed))


def _decode_graphs(
    model: ModelFacts, sizes: EngineSizes, *, rows: int, multiprocessors: int, data: MemoryData
) -> Amount:
    speculative = sizes.block_size > 1
    head = model.mla.kv_lora_rank if model.mla else model.v_head_dim
    splits = _mla_splits(multiprocessors, sizes.context_length, data) if model.mla else data.triton.kv_splits
    partials = max(1, model.heads // sizes.attention_tp) * splits * head
    own = data.after_pool.verify_graphs_mib if speculative else data.after_pool.decode_graphs_mib
    size = _buffer_bytes(sizes.backend, rows, sizes, partials=partials, data=data) + own * MIB
    return Amount(
        name="verify graphs" if speculative else "decode graphs",
        size_bytes=size,
        source=f"buffers of {sizes.backend} for {rows} tokens; {MEASURED}",
    )


def _draft_graphs(drafter: DrafterShape, sizes: EngineSizes, *, rows: int, data: MemoryData) -> Amount:
    backend = sizes.draft_backend or sizes.backend
    partials = max(1, drafter.heads // sizes.attention_tp) * data.triton.kv_splits * drafter.kv_head_dim
    size = _buffer_bytes(backend, rows, sizes, partials=partials, data=data)
    return Amount(
        name="draft graphs",
        size_bytes=size + data.after_pool.draft_graphs_mib * MIB,
        source=f"buffers of {backend} for {rows} tokens; {MEASURED}",
    )


def _buffer_bytes(backend: str, rows: int, sizes: EngineSizes, *, partials: int, data: MemoryData) -> int:
    """Bytes that a backend allocates for ``rows`` tokens in its graphs."""
    kind: GraphBuffers = data.graph_buffers.get(backend, data.graph_buffers["other"])
    size = rows * sizes.context_length * (kind.index_bytes + kind.mask_bytes) + kind.workspace_mib * MIB
    return size + (rows * partials * data.triton.partial_bytes if kind.partials else 0)


def _mla_splits(multiprocessors: int, context_length: int, data: MemoryData) -> int:
    """SGLang 0.5.16, triton_backend.py: _mla_decode_kv_splits_cap."""
    blocks = -(-context_length // data.triton.mla_min_block_kv)
    return max(data.triton.kv_splits, min(_power_of_2(multiprocessors), _power_of_2(blocks)))


def _power_of_2(number: int) -> int:
    return 1 << max(0, number - 1).bit_length()
