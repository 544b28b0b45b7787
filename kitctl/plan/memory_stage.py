"""What does the GPU of one pipeline stage hold before its pools? Context, weights, what loading leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kitctl.kit.drafter_facts import DrafterFacts
from kitctl.kit.model_facts import ModelFacts
from kitctl.kit.stack import Algorithm, Stack
from kitctl.kit.tensor_index import Role, Weights
from kitctl.plan.engine_defaults import MIB, EngineSizes
from kitctl.plan.kv_cells import Cells, cells_of
from kitctl.plan.memory_data import MemoryData
from kitctl.plan.releases import is_within
from kitctl.plan.reserves import Amount
from kitctl.plan.weights import VISION_ROLES, Layout, stage_bytes, stage_layers, vision_of


@dataclass(frozen=True, kw_only=True)
class GpuMemory:
    """The smallest of the GPUs that are used: memory as nvidia-smi states it, and what others hold of it."""

    total_mib: int
    used_mib: int = 0
    name: str | None = None
    compute_capability: str | None = None


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


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One GPU of a stage before its pools. ``before``: bytes free before loading; ``weights``: bytes by role.

    ``taken`` are the amounts that were gone before, ``loading`` those that loading takes.
    """

    number: int
    before: int
    weights: Mapping[Role, int]
    taken: tuple[Amount, ...]
    loading: tuple[Amount, ...]
    kept: int
    cells: Cells

    @property
    def loaded(self) -> int:
        """Bytes that loading takes."""
        return sum(amount.size_bytes for amount in self.loading)

    @property
    def left(self) -> int:
        """Bytes free after loading."""
        return self.before - self.loaded

    def budget(self, fraction: float) -> int:
        """Bytes that the engine gives to its pools."""
        return int(self.before * fraction) - self.loaded - self.kept


def load_stage(case: Case, sizes: EngineSizes, number: int) -> Stage:
    """The stage once its weights are loaded."""
    before = free_before_load(case.gpu, gpus=sizes.tp * sizes.pp, data=case.data)
    weights = stage_bytes(case.weights, _layout(case.model, sizes, case.data))[number]
    return Stage(
        number=number,
        before=before,
        weights=weights,
        taken=_taken_before(case, before=before),
        loading=_loaded(case, sizes, parts=weights),
        kept=_kept_for_images(case),
        cells=cells_of(
            case.model,
            case.drafter,
            sizes,
            algorithm=case.algorithm,
            layers=stage_layers(case.model.layers, sizes.pp)[number],
            release=case.release,
            data=case.data,
        ),
    )


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


def _taken_before(case: Case, *, before: int) -> tuple[Amount, ...]:
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
        size = drafter_bytes(case, sizes)
        table = (case.drafter.context_length or 0) + cost.rope_extra_positions
        size += table * case.drafter.head_dim * cost.rope_bytes
        found.append(
            Amount(name="drafter and its rope table", size_bytes=size, source=case.drafter_weights.source)
        )
    return tuple(found)


def drafter_bytes(case: Case, sizes: EngineSizes) -> int:
    """Bytes of the drafter's weights on one GPU; 0 without a drafter."""
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
    """Bytes that the engine keeps back from the pools for pictures."""
    rule = case.data.multimodal
    keeps = vision_of(case.model, case.data) and is_within(case.release, since=rule.kept_since)
    return rule.kept_mib * MIB if keeps else 0
