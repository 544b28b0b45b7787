"""How many bytes does one token of context take on a GPU: target pool, drafter pool, engine's budget?

Source: SGLang 0.5.16, model_executor/pool_configurator.py; measured on H200 (4608, 8192 and 4096 bytes to 0.01 %).
"""

from __future__ import annotations

from dataclasses import dataclass

from kitctl.kit.drafter_facts import DrafterFacts
from kitctl.kit.model_facts import ModelFacts
from kitctl.kit.stack import Algorithm
from kitctl.plan.engine_defaults import EngineSizes
from kitctl.plan.memory_data import MemoryData
from kitctl.plan.releases import is_within


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Bytes a token: ``target`` and ``drafter`` as allocated, ``budgeted`` as the engine divides its budget."""

    target: int
    drafter: int
    budgeted: int

    @property
    def real(self) -> int:
        """What a token really takes."""
        return self.target + self.drafter


def target_cell(model: ModelFacts, sizes: EngineSizes, *, layers: range) -> int:
    """Bytes a token in the target's pool: MLA keeps one latent on every GPU, others split by KV heads."""
    kept = sum(1 for layer in model.kv_layer_ids if layer in layers)
    if model.mla is not None:
        return (model.mla.kv_lora_rank + model.mla.qk_rope_head_dim) * kept * sizes.kv_bytes
    heads = max(1, model.kv_heads // sizes.attention_tp)
    return heads * (model.head_dim + model.v_head_dim) * kept * sizes.kv_bytes


def drafter_cell(drafter: DrafterFacts, sizes: EngineSizes) -> int:
    """Bytes a token in the drafter's own pool (keys and values of all its layers)."""
    heads = max(1, drafter.kv_heads // sizes.attention_tp)
    return heads * 2 * drafter.head_dim * drafter.layers * sizes.draft_kv_bytes


def cells_of(
    model: ModelFacts,
    drafter: DrafterFacts | None,
    sizes: EngineSizes,
    *,
    algorithm: Algorithm | None,
    layers: range,
    release: str,
    data: MemoryData,
) -> Cells:
    """The three cell sizes for the layers of one pipeline stage."""
    target = target_cell(model, sizes, layers=layers)
    if drafter is None or algorithm is None:
        return Cells(target=target, drafter=0, budgeted=target)
    own = drafter_cell(drafter, sizes)
    kept = max(1, len(layers))
    if algorithm is not Algorithm.DFLASH:
        return Cells(target=target, drafter=own, budgeted=int(target * (1 + drafter.layers / kept)))
    if is_within(release, since=data.speculation.real_drafter_cell_since):
        return Cells(target=target, drafter=own, budgeted=target + own)
    return Cells(target=target, drafter=own, budgeted=-(-target * (kept + drafter.layers) // kept))
