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
from kitctl.kit.stack import Stack
from kitctl.kit.tensor_index import Weights
from kitctl.plan.engine_defaults import MIB, EngineSizes, engine_sizes
from kitctl.plan.kv_cells import Cells
from kitctl.plan.memory_data import MemoryData
from kitctl.plan.memory_stage import Case, GpuMemory, Stage, drafter_bytes, load_stage
from kitctl.plan.memory_verdict import RANK, Room, Verdict, advise, judge_fit
from kitctl.plan.reserves import Amount, DrafterShape, Settled, after_pool, running_requests, working_set
from kitctl.plan.weights import computed_drafter_weights, computed_weights


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
    stages = [_fit_stage(case, sizes, number=number) for number in range(sizes.pp)]
    tokens = min(fit.kv_tokens for fit in stages)
    worst = min(stages, key=lambda fit: (RANK[fit.verdict], fit.kv_tokens, fit.free_bytes))
    return worst if worst.kv_tokens == tokens else _fit_stage(case, sizes, number=worst.stage, most=tokens)


@dataclass(frozen=True, kw_only=True)
class _Pool:
    """The KV pool of a stage: tokens that the engine would take by itself, and the cap to give it, if one is needed."""

    uncapped: int
    cap: int | None

    @property
    def tokens(self) -> int:
        return self.uncapped if self.cap is None else self.cap


def _fit_stage(case: Case, sizes: EngineSizes, *, number: int, most: int | None = None) -> MemoryFit:
    """The fit of a stage, whose pool holds ``most`` tokens when another stage holds fewer than it could."""
    stage = load_stage(case, sizes, number)
    pool = _size_pool(stage, sizes, most)
    after, free = _settle(case, sizes, left=stage.left, tokens=pool.tokens, cells=stage.cells)
    room = Room(
        before=stage.before,
        loaded=stage.loaded,
        free=free,
        tokens=pool.tokens,
        optional=after.optional_bytes,
        skipped=after.skipped,
    )
    taken = (*stage.taken, *stage.loading, *_pools(pool.tokens, stage.cells), *after.amounts)
    return _judged(case, sizes, stage=stage, pool=pool, room=room, taken=taken)


def _size_pool(stage: Stage, sizes: EngineSizes, most: int | None) -> _Pool:
    budget, cells = stage.budget(sizes.fraction), stage.cells
    uncapped = _limit(_whole_pages(budget // max(cells.budgeted, 1), sizes), sizes.max_total_tokens, most)
    return _Pool(uncapped=uncapped, cap=_cap(budget, cells, uncapped=uncapped, sizes=sizes))


def _judged(
    case: Case, sizes: EngineSizes, *, stage: Stage, pool: _Pool, room: Room, taken: tuple[Amount, ...]
) -> MemoryFit:
    """All numbers of the stage, and whether they fit."""
    requests = running_requests(sizes, pool.tokens, case.data)
    needed = working_set(case.model, sizes, requests=requests, data=case.data)
    verdict, reason = judge_fit(room, sizes, needed=needed)
    _, uncapped_free = _settle(case, sizes, left=stage.left, tokens=pool.uncapped, cells=stage.cells)
    return MemoryFit(
        verdict=verdict,
        reason=reason,
        gpu_total_bytes=case.gpu.total_mib * MIB,
        free_before_load_bytes=stage.before,
        weight_bytes=sum(stage.weights.values()),
        drafter_weight_bytes=drafter_bytes(case, sizes),
        loaded_bytes=stage.loaded,
        fraction=sizes.fraction,
        fraction_source=sizes.fraction_source,
        kv_budget_bytes=stage.budget(sizes.fraction),
        cells=stage.cells,
        kv_tokens=pool.tokens,
        kv_tokens_uncapped=pool.uncapped,
        max_total_tokens=pool.cap,
        context_length=sizes.context_length,
        running_requests=requests,
        free_bytes=room.free,
        free_bytes_uncapped=uncapped_free,
        taken=taken,
        needed=needed,
        advice=advise(room, sizes, needed=needed, most=case.data.fraction.advise_most),
        stage=stage.number,
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
