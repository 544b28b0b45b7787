"""What does SGLang decide by itself where a stack is silent: fraction, chunk, graphs, backends, pages?

Source: SGLang 0.5.16, server_args.py (_handle_gpu_memory_settings, _get_default_attn_backend) and
model_executor; numbers stand in ``data/engine_memory.toml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kitctl.kit.drafter_facts import DrafterFacts
from kitctl.kit.model_facts import Attention, ModelFacts
from kitctl.kit.stack import Algorithm, Graphs, Stack
from kitctl.plan.flag_spelling import graphs_of
from kitctl.plan.memory_data import Capacity, MemoryData, VisionDefault
from kitctl.plan.releases import is_within
from kitctl.plan.rule_values import flags_of
from kitctl.plan.weights import vision_of

MIB = 1024 * 1024
_PREFILL_STEPS = ((4, 33, 4), (48, 257, 16), (288, 513, 32), (576, 1025, 64), (1280, 4097, 256))
_PREFILL_STEP = 512


@dataclass(frozen=True, kw_only=True)
class EngineSizes:
    """All sizes that the engine works with, set or derived. ``fraction_source`` says which."""

    tp: int
    ep: int
    pp: int
    attention_tp: int
    fraction: float
    fraction_source: str
    context_length: int
    chunked_prefill_size: int
    graph_max_bs: int
    decode_graphs: bool
    prefill_graphs: bool
    block_size: int
    backend: str
    draft_backend: str | None
    page_size: int
    kv_bytes: int
    draft_kv_bytes: int
    max_running_requests: int | None
    max_total_tokens: int | None


def engine_sizes(
    stack: Stack,
    *,
    release: str,
    argv: tuple[str, ...],
    model: ModelFacts,
    drafter: DrafterFacts | None,
    total_mib: int,
    compute_capability: str | None,
    data: MemoryData,
) -> EngineSizes:
    """The sizes of one stack on GPUs of ``total_mib``; flags of the argv count like settings."""
    flags = flags_of(argv)
    capacity = capacity_of(total_mib, release=release, data=data)
    engine, parallel = stack.engine, stack.parallel
    chunk = engine.chunked_prefill_size or _number(flags, "chunked-prefill-size")
    graphs = graphs_of(stack)
    backend = engine.attention_backend or _text(flags, "attention-backend")
    backend = backend or _default_backend(stack, model, compute_capability, data)
    derived = _Derived(
        stack=stack,
        model=model,
        total_mib=total_mib,
        chunk=chunk or capacity.chunked_prefill_size,
        graph_max_bs=engine.graph_max_bs or _graph_max_bs(flags, capacity, parallel.tp),
        prefill_graphs=_prefill_graphs(graphs, stack, model),
        vision=vision_of(model, data),
    )
    fraction = engine.mem_fraction_static or _fraction_flag(flags)
    kv_bytes = _kv_bytes(engine.kv_cache_dtype or _text(flags, "kv-cache-dtype"), model)
    return EngineSizes(
        tp=parallel.tp,
        ep=parallel.ep,
        pp=parallel.pp,
        attention_tp=_attention_tp(stack, flags),
        fraction=fraction or default_fraction(derived, data),
        fraction_source="set" if fraction else "SGLang's default for this GPU and model",
        context_length=engine.context_length or _number(flags, "context-length") or model.context_length or 0,
        chunked_prefill_size=derived.chunk,
        graph_max_bs=derived.graph_max_bs,
        decode_graphs=graphs is not Graphs.OFF,
        prefill_graphs=derived.prefill_graphs,
        block_size=_block_size(stack, flags, drafter, data),
        backend=backend,
        draft_backend=_draft_backend(stack, backend, data),
        page_size=_number(flags, "page-size") or data.backends.pages.get(backend, 1),
        kv_bytes=kv_bytes,
        draft_kv_bytes=_kv_bytes(_text(flags, "speculative-draft-kv-cache-dtype"), None) or kv_bytes,
        max_running_requests=_running(stack, flags, data),
        max_total_tokens=engine.max_total_tokens or _number(flags, "max-total-tokens"),
    )


def capacity_of(total_mib: int, *, release: str, data: MemoryData) -> Capacity:
    """The defaults for GPUs of this size in this release."""
    return next(
        one
        for one in data.capacity
        if (one.below_mib is None or total_mib < one.below_mib) and is_within(release, until=one.until)
    )


@dataclass(frozen=True, kw_only=True)
class _Derived:
    stack: Stack
    model: ModelFacts
    total_mib: int
    chunk: int
    graph_max_bs: int
    prefill_graphs: bool
    vision: VisionDefault | None


def default_fraction(derived: _Derived, data: MemoryData) -> float:
    """The memory fraction that SGLang takes when none is set."""
    rule, parallel = data.fraction, derived.stack.parallel
    reserved = rule.base_mib + rule.per_prefill_token_mib * max(derived.chunk, rule.min_prefill_tokens)
    reserved += rule.per_gpu_mib * parallel.tp * parallel.pp
    if graphs_of(derived.stack) is not Graphs.OFF:
        reserved += rule.per_graph_batch_mib * derived.graph_max_bs
    if derived.prefill_graphs:
        is_mla = derived.model.attention is Attention.MLA
        count = len(prefill_graph_sizes(derived.chunk))
        reserved += rule.prefill_graphs_mla_mib if is_mla else rule.per_prefill_graph_mib * count
    if derived.total_mib > rule.large_gpu_above_mib:
        reserved = max(reserved, rule.large_gpu_floor_mib)
    plain = round((derived.total_mib - reserved) / derived.total_mib, 3)
    return plain * _vision_factor(derived.vision, data)


def prefill_graph_sizes(most: int) -> tuple[int, ...]:
    """Token counts for which prefill graphs are captured (_generate_prefill_cuda_graph_batch_sizes)."""
    sizes = [size for step in _PREFILL_STEPS for size in range(*step)]
    return tuple(size for size in (*sizes, *range(4608, most + 1, _PREFILL_STEP)) if size <= most)


def _vision_factor(vision: VisionDefault | None, data: MemoryData) -> float:
    if vision is None:
        return 1.0
    rule = data.fraction
    baseline = rule.vision_layers * rule.vision_hidden**2
    ratio = vision.layers * vision.hidden_size**2 / baseline
    factor = 1.0 - rule.vision_sensitivity * (ratio - 1.0)
    return rule.vision_base * max(rule.vision_least, min(rule.vision_most, factor))


def _prefill_graphs(graphs: Graphs, stack: Stack, model: ModelFacts) -> bool:
    """MLA captures prefill graphs only for multimodal decoders, and pipeline parallelism never does."""
    if graphs is not Graphs.ON or stack.parallel.pp > 1:
        return False
    return model.attention is not Attention.MLA or "ConditionalGeneration" in model.architecture


def _default_backend(stack: Stack, model: ModelFacts, capability: str | None, data: MemoryData) -> str:
    major = (capability or "").partition(".")[0]
    table = data.backends.mha_dflash if stack.drafter else data.backends.mha
    table = data.backends.mla if model.attention is Attention.MLA else table
    return table.get(major, table["other"])


def _draft_backend(stack: Stack, backend: str, data: MemoryData) -> str | None:
    if stack.drafter is None:
        return None
    wanted = stack.drafter.attention_backend or backend
    return wanted if wanted in data.backends.drafter_takes else data.backends.drafter_falls_back_to


def _graph_max_bs(flags: Mapping[str, str | bool], capacity: Capacity, tp: int) -> int:
    given = _number(flags, "cuda-graph-max-bs-decode") or _number(flags, "cuda-graph-max-bs")
    return given or (capacity.graph_max_bs if tp < 4 else capacity.graph_max_bs_from_tp4)


def _attention_tp(stack: Stack, flags: Mapping[str, str | bool]) -> int:
    if "enable-dp-attention" not in flags and "attn-dp-size" not in flags:
        return stack.parallel.tp
    width = _number(flags, "attn-dp-size") or stack.parallel.dp
    return max(1, stack.parallel.tp // max(1, width))


def _block_size(
    stack: Stack, flags: Mapping[str, str | bool], drafter: DrafterFacts | None, data: MemoryData
) -> int:
    """Tokens that one verify step looks at for each request; 1 without speculation."""
    if stack.drafter is None:
        return 1
    given = stack.drafter.block_size or _number(flags, "speculative-dflash-block-size")
    given = given or _number(flags, "speculative-num-draft-tokens")
    return given or (drafter.block_size if drafter else None) or data.speculation.default_block_size


def _running(stack: Stack, flags: Mapping[str, str | bool], data: MemoryData) -> int | None:
    given = stack.engine.max_running_requests or _number(flags, "max-running-requests")
    if given is None and stack.drafter is not None and stack.drafter.algorithm is not Algorithm.DDTREE:
        return data.requests.speculative_default
    return given


def _kv_bytes(dtype: str | None, model: ModelFacts | None) -> int:
    """Bytes of one KV element; 0 when nothing says so (a drafter without a type of its own)."""
    if dtype and "8" in dtype:
        return 1
    if model is None:
        return 2 if dtype else 0
    if dtype in (None, "auto") and model.quantization and model.quantization.kv_cache_bits == 8:
        return 1
    return 2


def _number(flags: Mapping[str, str | bool], name: str) -> int | None:
    value = flags.get(name)
    return int(value) if isinstance(value, str) and value.isdigit() and int(value) > 0 else None


def _text(flags: Mapping[str, str | bool], name: str) -> str | None:
    value = flags.get(name)
    return value if isinstance(value, str) else None


def _fraction_flag(flags: Mapping[str, str | bool]) -> float | None:
    value = _text(flags, "mem-fraction-static")
    try:
        return float(value) if value else None
    except ValueError:
        return None
