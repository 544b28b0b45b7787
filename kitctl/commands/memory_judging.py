"""Does the planned stack fit the memory of the GPUs that it would get?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from kitctl.edge.package_data import package_text
from kitctl.edge.weight_headers import read_weights
from kitctl.host.facts import HostFacts
from kitctl.kit.drafter_facts import DrafterFacts
from kitctl.kit.model_facts import ModelFacts
from kitctl.kit.models_lock import ModelEntry
from kitctl.kit.tensor_index import RolePatterns, Weights, read_role_patterns
from kitctl.plan.memory_check import MemoryAnswer, check_memory, smallest_gpu, with_stated_size
from kitctl.plan.memory_data import MemoryData, read_memory_data
from kitctl.plan.placement import Placement
from kitctl.plan.types import Plan, PlannedModel
from kitctl.plan.weights import computed_weights


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """What the models' config.json say."""

    target: ModelFacts
    drafter: DrafterFacts | None


def judge_memory(
    plan: Plan,
    placement: Placement,
    facts: HostFacts,
    *,
    entries: Mapping[str, ModelEntry],
    shapes: Shapes,
) -> MemoryAnswer:
    """The memory fit of a plan that reserves GPUs; nothing for one that does not."""
    if placement.gpus is None:
        return MemoryAnswer(fit=None, findings=())
    data = read_memory_data(package_text("engine_memory.toml"))
    patterns = read_role_patterns(package_text("tensor_roles.toml"))
    model, drafter = shapes.target, shapes.drafter
    models = {planned.role: planned for planned in plan.models}
    held = read_planned(models["target"], patterns, layers=model.layers)
    drafted = models.get("drafter")
    return check_memory(
        plan.stack,
        release=plan.image.release or "",
        argv=plan.argv,
        model=model,
        drafter=drafter,
        weights=held or _computed(model, entries["target"], data),
        drafter_weights=read_planned(drafted, patterns, layers=drafter.layers)
        if drafted and drafter
        else None,
        gpu=smallest_gpu(facts, placement.gpus.indices, own_project=plan.project),
        data=data,
    )


def read_planned(model: PlannedModel, patterns: RolePatterns, *, layers: int) -> Weights | None:
    """The weights of a model that lies complete in the store; ``None`` else."""
    if model.missing_bytes != 0:
        return None
    return read_weights(str(PurePosixPath(model.folder) / model.inner), patterns=patterns, layers=layers)


def _computed(model: ModelFacts, entry: ModelEntry, data: MemoryData) -> Weights:
    return with_stated_size(computed_weights(model, data=data), entry.weights_bytes or entry.size_bytes)
