"""Does the stack fit these GPUs, and how many tokens will its KV cache hold? Every number with its source.

The engine's arithmetic (SGLang 0.5.16, mem_cache/kv_cache_configurator.py: _profile_available_bytes): the KV budget is
what is free after weights, less (1 - fraction) of what was free before them. Graphs, tables and activations come
afterwards out of that rest. What the engine would allocate beyond its budget (a DFlash drafter's pool, before
0.5.18) is found by computing both pools, and mended by a cap on the tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

from kitctl.kit.drafter_facts import DrafterFacts
from kitctl.kit.model_facts import ModelFacts
from kitctl.kit.stack import Algorithm, Stack
from kitctl.kit.tensor_index import Role, Weights
from kitctl.plan.engine_defaults import MIB, EngineSizes, engine_sizes
from kitctl.plan.kv_cells import Cells, cells_of
from kitctl.plan.memory_data import MemoryData
from kitctl.plan.memory_verdict import RANK, Room, Verdict, advise, judge_fit
from kitctl.plan.releases import is_within
from kitctl.plan.reserves import Amount, DrafterShape, Settled, after_pool, running_requests, working_set
from kitctl.plan.weights import (
    VISION_ROLES,
    Layout,
    computed_drafter_weights,
    computed_weights,
    stage_bytes,
    stage_layers,
    vision_of,
)


@dataclass(frozen=True, kw_only=True)
class GpuMemory:
    """The smallest of the GPUs that are used: memory as nvidia-smi states it, and what others hold of it."""

    total_mib: int
    used_mib: int = 0
    name: str | None = None
    compute_capability: str | None = None


@dataclass(frozen=True, kw_only=True)
class MemoryFit:
    """The fit of one stack. Bytes are for the GPU that holds the most.

    ``kv_tokens`` is what the plan expects, ``kv_tokens_uncapped`` what the engine would take by itself,
    ``max_total_tokens`` the cap to give it (``None``: none is needed). ``taken`` are all amounts until it is
    ready, ``needed`` what must still be free then, ``free_bytes`` what will be (negative: it runs out).
    """

    verdict: Verdict
    reason: str
    gpu_total_bytes: int
    free_before_load_bytes: int
    weight_bytes: int
    drafter_weight_bytes: int
    loaded_bytes: int
    fraction: float
    fraction_source: str
    kv_budget_bytes: int
    cells: Cells
    kv_tokens: int
    kv_tokens_uncapped: int
    max_total_tokens: int | None
    context_length: int
    running_requests: int
    free_bytes: int
    free_bytes_uncapped: int
    taken: tuple[Amount, ...]
    needed: tuple[Amount, ...]
    advice: tuple[str, ...]
    stage: int
    weights_source: str

    @property
    def sequences_at_context(self) -> float:
        """How many requests of the full context the KV cache holds at once."""
        return self.kv_tokens / self.context_length if self.context_length else 0.0

    @property
    def needed_bytes(self) -> int:
        """What must still be free once the engine is ready."""
        return sum(amount.size_bytes for amount in self.needed)


@dataclass(frozen=True, kw_only=True)
class Case:
    """What a fit is computed from."""

    stack: Stack
    release: str
    argv: tuple[str, ...]
    model: ModelFacts
    drafter: DrafterFacts | None
    weights: Weights
    drafter_weights: Weights | None
    gpu: GpuMemory
    data: MemoryData

    @property
    def algorithm(self) -> Algorithm | None:
        """How drafts are made, ``None`` without a drafter."""
        return self.stack.drafter.algorithm if self.stack.drafter and self.drafter else None


def fit_memory(
    stack: Stack,
    *,
    release: str,
    model: ModelFacts,
    gpu: GpuMemory,
    data: MemoryData,
    argv: tuple[str, ...] = (),
    drafter: DrafterFacts | None = None,
    weights: Weights | None = None,
    drafter_weights: Weights | None = None,
) -> MemoryFit:
    """The fit of ``stack`` on GPUs like ``gpu``. Weights that are not handed in are computed from config.json."""
    used = drafter if stack.drafter else None
    captured = len(used.captured_layers(model.layers)) if used else 0
    computed = computed_drafter_weights(used, captured=captured) if used and not drafter_weights else None
    case = Case(
        stack=stack,
        release=release,
        argv=argv,
        model=model,
        drafter=used,
        weights=weights or computed_weights(model, data=data),
        drafter_weights=(drafter_weights or computed) if used else None,
        gpu=gpu,
        data=data,
    )
    sizes = engine_sizes(
        stack,
        release=release,
        argv=argv,
        model=model,
        drafter=used,
        total_mib=gpu.total_mib,
        compute_capability=gpu.compute_capability,
        data=data,
    )
    stages = [_fit_stage(case, sizes, stage=stage) for stage in range(sizes.pp)]
    tokens = min(fit.kv_tokens for fit in stages)
    worst = min(stages, key=lambda fit: (RANK[fit.verdict], fit.kv_tokens, fit.free_bytes))
    return worst if worst.kv_tokens == tokens else _fit_stage(case, sizes, stage=worst.stage, most=tokens)


def _fit_stage(case: Case, sizes: EngineSizes, *, stage: int, most: int | None = None) -> MemoryFit:
    held = stage_layers(case.model.layers, sizes.pp)[stage]
    before = free_before_load(case.gpu, gpus=sizes.tp * sizes.pp, data=case.data)
    parts = stage_bytes(case.weights, _layout(case.model, sizes, case.data))[stage]
    loading = _loaded(case, sizes, parts=parts)
    loaded = sum(amount.size_bytes for amount in loading)
    budget = int(before * sizes.fraction) - loaded - _kept_for_images(case)
    cells = cells_of(
        case.model,
        case.drafter,
        sizes,
        algorithm=case.algorithm,
        layers=held,
        release=case.release,
        data=case.data,
    )
    uncapped = _limit(_whole_pages(budget // max(cells.budgeted, 1), sizes), sizes.max_total_tokens, most)
    cap = _cap(budget, cells, uncapped=uncapped, sizes=sizes)
    tokens = uncapped if cap is None else cap
    requests = running_requests(sizes, tokens, case.data)
    after, free = _settle(case, sizes, left=before - loaded, tokens=tokens, cells=cells)
    _, uncapped_free = _settle(case, sizes, left=before - loaded, tokens=uncapped, cells=cells)
    taken = (*_before(case, sizes), *loading, *_pools(tokens, cells), *after.amounts)
    room = Room(
        before=before,
        loaded=loaded,
        free=free,
        tokens=tokens,
        optional=after.optional_bytes,
        skipped=after.skipped,
    )
    needed = working_set(case.model, sizes, requests=requests, data=case.data)
    verdict, reason = judge_fit(room, sizes, needed=needed)
    return MemoryFit(
        verdict=verdict,
        reason=reason,
        gpu_total_bytes=case.gpu.total_mib * MIB,
        free_before_load_bytes=before,
        weight_bytes=sum(parts.values()),
        drafter_weight_bytes=_drafter_bytes(case, sizes),
        loaded_bytes=loaded,
        fraction=sizes.fraction,
        fraction_source=sizes.fraction_source,
        kv_budget_bytes=budget,
        cells=cells,
        kv_tokens=tokens,
        kv_tokens_uncapped=uncapped,
        max_total_tokens=cap,
        context_length=sizes.context_length,
        running_requests=requests,
        free_bytes=free,
        free_bytes_uncapped=uncapped_free,
        taken=taken,
        needed=needed,
        advice=advise(room, sizes, needed=needed, most=case.data.fraction.advise_most),
        stage=stage,
        weights_source=case.weights.source,
    )


def _settle(case: Case, sizes: EngineSizes, *, left: int, tokens: int, cells: Cells) -> tuple[Settled, int]:
    """What comes after the pools, and what is free when the engine is ready."""
    left -= tokens * cells.real
    after = after_pool(
        case.model,
        sizes,
        drafter=_shape(case.drafter),
        requests=running_requests(sizes, tokens, case.data),
        multiprocessors=case.data.multiprocessors_of(case.gpu.name),
        free_bytes=left,
        data=case.data,
    )
    return after, left - after.size_bytes


def free_before_load(gpu: GpuMemory, *, gpus: int, data: MemoryData) -> int:
    """Bytes that the engine finds free before it loads weights (its pre_model_load_memory)."""
    cost = data.context
    group = cost.distributed_alone_mib if gpus == 1 else cost.distributed_group_mib
    own = cost.driver_reserved_mib + cost.cuda_context_mib + group
    return (gpu.total_mib - gpu.used_mib - own) * MIB


def _layout(model: ModelFacts, sizes: EngineSizes, data: MemoryData) -> Layout:
    return Layout(
        tp=sizes.tp,
        ep=sizes.ep,
        pp=sizes.pp,
        attention_tp=sizes.attention_tp,
        kv_heads=model.kv_heads,
        vocab_size=model.vocab_size,
        vocab_padding=data.weights.vocab_padding,
        layers=model.layers,
    )


def _before(case: Case, sizes: EngineSizes) -> tuple[Amount, ...]:
    before = free_before_load(case.gpu, gpus=sizes.tp * sizes.pp, data=case.data)
    gone = (case.gpu.total_mib - case.gpu.used_mib) * MIB - before
    own = Amount(
        name="driver, CUDA context and NCCL",
        size_bytes=gone,
        source="measured on H200, SGLang 0.5.16",
    )
    if case.gpu.used_mib == 0:
        return (own,)
    held = case.gpu.used_mib * MIB
    return (Amount(name="held by other processes", size_bytes=held, source="nvidia-smi memory.used"), own)


def _loaded(case: Case, sizes: EngineSizes, *, parts: dict[Role, int]) -> tuple[Amount, ...]:
    cost, model = case.data.weights, case.model
    experts = parts.get(Role.EXPERT, 0) + parts.get(Role.EXPERT_SHAPE, 0)
    vision = sum(parts.get(role, 0) for role in VISION_ROLES)
    named = {"experts": experts, "vision tower": vision}
    named = {"weights": sum(parts.values()) - experts - vision} | named
    source = f"{case.weights.source}, sharded by tp {sizes.tp}, ep {sizes.ep}, pp {sizes.pp}"
    found = [Amount(name=name, size_bytes=size, source=source) for name, size in named.items() if size]
    rope = model.mla.qk_rope_head_dim if model.mla else model.head_dim
    extra = ((model.context_length or 0) + cost.rope_extra_positions) * rope * cost.rope_bytes
    extra += parts.get(Role.KV_B, 0) + (cost.allocator_mib + case.data.context.load_slip_mib) * MIB
    own = "rope table, MLA's second kv_b, allocator; matches H200 to 0.05 GiB"
    found.append(Amount(name="made while loading", size_bytes=extra, source=own))
    if case.drafter is not None and case.drafter_weights is not None:
        size = _drafter_bytes(case, sizes)
        table = (case.drafter.context_length or 0) + cost.rope_extra_positions
        size += table * case.drafter.head_dim * cost.rope_bytes
        found.append(
            Amount(name="drafter and its rope table", size_bytes=size, source=case.drafter_weights.source)
        )
    return tuple(found)


def _drafter_bytes(case: Case, sizes: EngineSizes) -> int:
    if case.drafter is None or case.drafter_weights is None:
        return 0
    layout = Layout(
        tp=sizes.tp,
        ep=1,
        pp=1,
        attention_tp=sizes.attention_tp,
        kv_heads=case.drafter.kv_heads,
        vocab_size=case.model.vocab_size,
        vocab_padding=case.data.weights.vocab_padding,
        layers=case.drafter.layers,
    )
    return sum(stage_bytes(case.drafter_weights, layout)[0].values())


def _kept_for_images(case: Case) -> int:
    rule = case.data.multimodal
    keeps = vision_of(case.model, case.data) and is_within(case.release, since=rule.kept_since)
    return rule.kept_mib * MIB if keeps else 0


def _shape(drafter: DrafterFacts | None) -> DrafterShape | None:
    if drafter is None:
        return None
    return DrafterShape(heads=drafter.heads, kv_head_dim=drafter.head_dim, layers=drafter.layers)


def _whole_pages(tokens: int, sizes: EngineSizes) -> int:
    return max(0, tokens) // sizes.page_size * sizes.page_size


def _limit(tokens: int, *limits: int | None) -> int:
    return min([tokens, *(limit for limit in limits if limit is not None)])


def _cap(budget: int, cells: Cells, *, uncapped: int, sizes: EngineSizes) -> int | None:
    """The most tokens whose pools stay within the budget, where the engine by itself would go beyond it."""
    if uncapped <= 0 or uncapped * cells.real <= budget or cells.real <= cells.budgeted:
        return None
    return _whole_pages(budget // cells.real, sizes)


def _pools(tokens: int, cells: Cells) -> tuple[Amount, ...]:
    target = Amount(
        name="KV cache", size_bytes=tokens * cells.target, source=f"{tokens} tokens x {cells.target} B"
    )
    if not cells.drafter:
        return (target,)
    size = tokens * cells.drafter
    own = Amount(name="drafter's KV cache", size_bytes=size, source=f"{tokens} tokens x {cells.drafter} B")
    return (target, own)
