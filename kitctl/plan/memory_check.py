"""What does the host's memory say of a plan: how much each reserved GPU has for it, and whether the stack fits?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kitctl.finding import Finding, Severity
from kitctl.host.facts import Gpu, HostFacts
from kitctl.kit.drafter_facts import DrafterFacts
from kitctl.kit.model_facts import ModelFacts
from kitctl.kit.stack import Stack
from kitctl.kit.tensor_index import Weights
from kitctl.plan.engine_defaults import MIB
from kitctl.plan.memory import MemoryFit, fit_memory
from kitctl.plan.memory_data import MemoryData
from kitctl.plan.memory_report import memory_findings, memory_json
from kitctl.plan.memory_stage import GpuMemory

IDLE_MIB = 1024
NEARLY = 1.02


@dataclass(frozen=True, kw_only=True)
class MemoryAnswer:
    """The fit, ``None`` when it could not be computed, and the findings on it."""

    fit: MemoryFit | None
    findings: tuple[Finding, ...]

    @property
    def max_total_tokens(self) -> int | None:
        """The cap that the engine must be given, if any."""
        return self.fit.max_total_tokens if self.fit else None

    def json(self) -> dict[str, Any] | None:
        """The fit as the plan carries it."""
        return memory_json(self.fit) if self.fit else None


def check_memory(
    stack: Stack,
    *,
    release: str,
    argv: tuple[str, ...],
    model: ModelFacts,
    drafter: DrafterFacts | None,
    weights: Weights | None,
    drafter_weights: Weights | None,
    gpu: GpuMemory | None,
    data: MemoryData,
) -> MemoryAnswer:
    """The fit on ``gpu``, the smallest of those reserved; a finding says so when its memory is unknown."""
    if gpu is None:
        return MemoryAnswer(fit=None, findings=(_unknown(),))
    fit = fit_memory(
        stack,
        release=release,
        model=model,
        gpu=gpu,
        data=data,
        argv=argv,
        drafter=drafter,
        weights=weights,
        drafter_weights=drafter_weights,
    )
    irregular = (_irregular(model.irregular_kv),) if model.irregular_kv else ()
    return MemoryAnswer(fit=fit, findings=(*memory_findings(fit), *irregular))


def smallest_gpu(facts: HostFacts, indices: Sequence[int], *, own_project: str | None) -> GpuMemory | None:
    """The reserved GPU with the least memory for the stack; ``None`` when one's memory is unknown.

    While the stack itself is there, its GPUs count as empty, so that the plan stays the one that runs.
    """
    reserved = [gpu for gpu in facts.gpus or () if gpu.index in set(indices)]
    is_up = own_project is not None and any(one.project == own_project for one in facts.containers or ())
    found = [_memory_of(gpu, facts, is_own=is_up) for gpu in reserved]
    known = [gpu for gpu in found if gpu is not None]
    if not known or len(known) < len(reserved):
        return None
    return min(known, key=lambda gpu: gpu.total_mib - gpu.used_mib)


def _memory_of(gpu: Gpu, facts: HostFacts, *, is_own: bool) -> GpuMemory | None:
    """The GPU's own memory; of one that names none (GB10: it shares the host's) the host's RAM."""
    total, used = gpu.memory_total_mib, gpu.memory_used_mib or 0
    if total is None and facts.ram_total_bytes is not None:
        total = facts.ram_total_bytes // MIB
        used = total - (facts.ram_available_bytes or facts.ram_total_bytes) // MIB
    if total is None:
        return None
    return GpuMemory(
        total_mib=total,
        used_mib=0 if is_own or used < IDLE_MIB else used,
        name=gpu.name,
        compute_capability=gpu.compute_capability,
    )


def with_stated_size(weights: Weights, stated_bytes: int | None) -> Weights:
    """Computed weights raised to the size that the lock states, where config.json explains less of it.

    A checkpoint may hold parts that its config.json does not tell; they are spread like what it tells.
    """
    if stated_bytes is None or weights.size_bytes * NEARLY >= stated_bytes:
        return weights
    factor = stated_bytes / weights.size_bytes
    sums = tuple(replace(part, each_bytes=int(part.each_bytes * factor)) for part in weights.sums)
    return Weights(sums=sums, source=f"{weights.source}, raised by {factor - 1:.0%} to the stated size")


def _unknown() -> Finding:
    return Finding(
        code="memory-not-judged",
        severity=Severity.NOTE,
        cause="whether the stack fits is unknown: no memory of the reserved GPUs is known",
        remedy="plan on the host itself, or with --facts FILE of its 'kitctl doctor --json'",
        where="gpus",
    )


def _irregular(why: str) -> Finding:
    return Finding(
        code="memory-kv-is-estimated",
        severity=Severity.NOTE,
        cause=f"the KV cache of this model is only estimated: {why}",
        remedy="read the engine's own figure after the start (max_total_num_tokens)",
        where="engine.mem_fraction_static",
    )
