"""Does the planned stack fit the memory of its GPUs, and its drafter the target? What is read for both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from kitctl.commands.last_start import last_phases
from kitctl.edge.files import read_text_if_there
from kitctl.edge.package_data import package_text
from kitctl.edge.weight_headers import read_shape, read_weights
from kitctl.finding import Finding
from kitctl.host.facts import HostFacts
from kitctl.kit.drafter_facts import DrafterFacts
from kitctl.kit.model_facts import ModelFacts
from kitctl.kit.models_lock import FileRole, ModelEntry
from kitctl.kit.tensor_index import RolePatterns, Weights, read_role_patterns
from kitctl.plan.drafter_proof import READABLE, TOKENIZER_FILES, TokenizerFiles, prove_drafter
from kitctl.plan.load_need import LoadNeed, load_need
from kitctl.plan.memory_check import MemoryAnswer, check_memory, smallest_gpu, with_stated_size
from kitctl.plan.memory_data import read_memory_data
from kitctl.plan.placement import Placement
from kitctl.plan.rank import gpus_here
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
        weights=held or stated_weights(model, entries["target"]),
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
    return read_weights(_folder_of(model), patterns=patterns, layers=layers)


def stated_weights(model: ModelFacts, entry: ModelEntry) -> Weights:
    """Weights computed from config.json, no less than what the lock states of their size."""
    data = read_memory_data(package_text("engine_memory.toml"))
    return with_stated_size(computed_weights(model, data=data), entry.weights_bytes or entry.size_bytes)


def judge_drafter(plan: Plan, *, entries: Mapping[str, ModelEntry], shapes: Shapes) -> tuple[Finding, ...]:
    """What tokenizers and the drafter's header say of the pair, as far as the lock or the store hold them."""
    planned = {model.role: model for model in plan.models}
    if shapes.drafter is None:
        return ()
    return prove_drafter(
        shapes.target,
        shapes.drafter,
        target_tokenizer=_tokenizer_of(planned["target"], entries["target"]),
        drafter_tokenizer=_tokenizer_of(planned["drafter"], entries["drafter"]),
        fc_shape=read_shape(_folder_of(planned["drafter"]), "fc.weight"),
    )


def _tokenizer_of(model: PlannedModel, entry: ModelEntry) -> TokenizerFiles:
    hashes = {file.path: file.blob_name for file in entry.files if file.path in TOKENIZER_FILES}
    return TokenizerFiles(hashes=hashes, text=read_text_if_there(f"{_folder_of(model)}/{READABLE}"))


def _folder_of(model: PlannedModel) -> str:
    return str(PurePosixPath(model.folder) / model.inner)


def judge_load(plan: Plan, entries: Mapping[str, ModelEntry]) -> LoadNeed:
    """How long the start is expected to take, and the RAM that it needs."""
    files = [file for entry in entries.values() for file in entry.files if file.role is FileRole.WEIGHTS]
    stated = [entry.size_bytes for entry in entries.values()]
    sizes = [size for size in stated if size is not None]
    return load_need(
        weight_bytes=sum(sizes) if len(sizes) == len(stated) else None,
        largest_file_bytes=max((file.size_bytes for file in files), default=0),
        processes=gpus_here(plan.stack, plan.rank),
        last_load=last_phases(plan.stack.name, rehearsal=plan.rehearsal),
        read_bytes_per_s=None,
        rule=read_memory_data(package_text("engine_memory.toml")).load,
    )
