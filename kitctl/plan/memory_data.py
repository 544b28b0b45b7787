"""What SGLang takes of a GPU beside weights and KV cache: the types of ``data/engine_memory.toml``."""

from __future__ import annotations

import tomllib

import msgspec


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table whose unknown keys are refused."""


class ContextCost(Table, frozen=True, kw_only=True):
    """Memory gone before weights are loaded."""

    driver_reserved_mib: int
    cuda_context_mib: int
    distributed_alone_mib: int
    distributed_group_mib: int
    load_slip_mib: int


class WeightCost(Table, frozen=True, kw_only=True):
    """What loaded weights take beyond their tensors."""

    rope_extra_positions: int
    rope_bytes: int
    allocator_mib: int
    vocab_padding: int
    method_bits: dict[str, int]


class AfterPool(Table, frozen=True, kw_only=True):
    """Memory taken after the KV pool, outside the fraction."""

    attention_mla_mib: int
    attention_mib: int
    decode_graphs_mib: int
    verify_graphs_mib: int
    draft_graphs_mib: int
    prefill_graphs_mla_mib: int
    prefill_graphs_mib: int
    prefill_graphs_floor_mib: int
    draft_graphs_floor_mib: int
    api_server_mib: int
    vision_transient_mib: int
    slack_mib: int


class Capacity(Table, frozen=True, kw_only=True):
    """Defaults for GPUs below a size; the last one has no bound."""

    chunked_prefill_size: int
    graph_max_bs: int
    graph_max_bs_from_tp4: int
    below_mib: int | None = None
    until: str | None = None


class FractionRule(Table, frozen=True, kw_only=True):
    """How SGLang derives its default memory fraction."""

    base_mib: int
    per_prefill_token_mib: float
    min_prefill_tokens: int
    per_gpu_mib: int
    per_graph_batch_mib: int
    per_prefill_graph_mib: int
    prefill_graphs_mla_mib: int
    large_gpu_above_mib: int
    large_gpu_floor_mib: int
    advise_most: float
    vision_base: float
    vision_layers: int
    vision_hidden: int
    vision_sensitivity: float
    vision_least: float
    vision_most: float


class RequestRule(Table, frozen=True, kw_only=True):
    """How many requests run at once, and the table that holds their token slots."""

    least: int
    most: int
    per_context: int
    row_extra_tokens: int
    bytes_per_slot: int
    speculative_default: int


class SpeculationRule(Table, frozen=True, kw_only=True):
    """How a drafter's KV is budgeted, by release."""

    real_drafter_cell_since: str
    default_block_size: int


class MultimodalRule(Table, frozen=True, kw_only=True):
    """What is kept of the KV budget for multimodal caches."""

    kept_since: str
    kept_mib: int


class Backends(Table, frozen=True, kw_only=True):
    """Attention backends that SGLang picks, by compute capability major."""

    mla: dict[str, str]
    mha: dict[str, str]
    mha_dflash: dict[str, str]
    pages: dict[str, int]
    drafter_takes: tuple[str, ...]
    drafter_falls_back_to: str


class GraphBuffers(Table, frozen=True, kw_only=True):
    """Buffers of an attention backend for CUDA graphs, per token and context position."""

    index_bytes: int
    mask_bytes: int
    workspace_mib: int
    partials: bool = False


class TritonRule(Table, frozen=True, kw_only=True):
    """Triton's partial results of attention."""

    kv_splits: int
    mla_min_block_kv: int
    partial_bytes: int


class VisionDefault(Table, frozen=True, kw_only=True):
    """A vision tower that SGLang's own config class fills in."""

    layers: int
    hidden_size: int
    heads: int
    intermediate_size: int
    patch: int
    positions: int
    merged: int


class LoadRule(Table, frozen=True, kw_only=True):
    """How long a start takes, and what it needs of the host's memory."""

    import_s: int
    after_weights_s: int
    read_bytes_per_s: int
    main_process_mib: int
    scheduler_mib: int


class MemoryData(Table, frozen=True, kw_only=True):
    """``data/engine_memory.toml``."""

    context: ContextCost
    weights: WeightCost
    after_pool: AfterPool
    capacity: tuple[Capacity, ...]
    fraction: FractionRule
    requests: RequestRule
    speculation: SpeculationRule
    multimodal: MultimodalRule
    backends: Backends
    graph_buffers: dict[str, GraphBuffers]
    triton: TritonRule
    multiprocessors: dict[str, int]
    vision: dict[str, VisionDefault]
    load: LoadRule

    def multiprocessors_of(self, name: str | None) -> int:
        """Multiprocessors of the card with this name (longest prefix); the table's ``other`` for an unknown one."""
        known = [prefix for prefix in self.multiprocessors if name and name.startswith(prefix)]
        return self.multiprocessors[max(known, key=len, default="other")]


def read_memory_data(text: str) -> MemoryData:
    """The table of ``data/engine_memory.toml``."""
    return msgspec.convert(tomllib.loads(text), MemoryData)
