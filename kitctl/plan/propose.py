"""Which stacks would serve a model on this host? Layouts that the engine's rules allow and the memory holds, ranked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from kitctl.finding import Severity
from kitctl.kit.drafter_facts import DrafterFacts, DrafterKind
from kitctl.kit.model_facts import ModelFacts
from kitctl.kit.stack import Algorithm, Drafter, EngineSettings, Parallel, Stack
from kitctl.kit.tensor_index import Weights
from kitctl.plan.engine_rules import RuleBook, check_rules
from kitctl.plan.memory import MemoryFit, fit_memory
from kitctl.plan.memory_data import MemoryData
from kitctl.plan.memory_stage import GpuMemory
from kitctl.plan.memory_verdict import RANK, Verdict

FIRST_FRACTION = 0.85
TRUST_RULE = "custom-code-not-trusted"
REQUESTS = 64
SEQUENCES = 2
STEP = 1024
_ALGORITHMS = {
    DrafterKind.DFLASH: Algorithm.DFLASH,
    DrafterKind.DFLASH2: Algorithm.DFLASH,
    DrafterKind.EAGLE: Algorithm.EAGLE,
    DrafterKind.EAGLE3: Algorithm.EAGLE3,
}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a stack is proposed for: the models by name and shape, and the GPUs of the host."""

    name: str
    target: str
    model: ModelFacts
    weights: Weights | None
    drafter_name: str | None
    drafter: DrafterFacts | None
    gpu: GpuMemory
    gpu_count: int
    archs: tuple[str, ...]
    links: str | None
    release: str


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """One layout that the rules allow: the stack, its fit, and why it stands where it stands."""

    stack: Stack
    fit: MemoryFit
    reasons: tuple[str, ...]


def propose(wanted: Wanted, *, book: RuleBook, data: MemoryData) -> tuple[Proposal, ...]:
    """All layouts whose memory does not rule them out, best first: fits before tight, no pipeline before one,
    then most tokens of KV; ep changes no bytes, so 1 comes first and the rest are to be measured."""
    found = [
        proposal
        for parallel in layouts(wanted)
        if (proposal := _propose_one(wanted, parallel, book=book, data=data)) is not None
    ]
    return tuple(sorted(found, key=_order))


def layouts(wanted: Wanted) -> Iterator[Parallel]:
    """tp x pp that use a whole number of the host's GPUs, with every ep that divides tp and the experts."""
    experts = wanted.model.experts.count if wanted.model.experts else 0
    for gpus in _divisors(wanted.gpu_count):
        for tp in _divisors(gpus):
            pp = gpus // tp
            if pp > 1 and wanted.drafter is not None:
                continue
            for ep in _divisors(tp) if experts else (1,):
                if ep == 1 or experts % ep == 0:
                    yield Parallel(tp=tp, ep=ep, pp=pp)


def _propose_one(wanted: Wanted, parallel: Parallel, *, book: RuleBook, data: MemoryData) -> Proposal | None:
    stack = _stack(wanted, parallel, EngineSettings(mem_fraction_static=FIRST_FRACTION))
    found = check_rules(
        stack,
        book=book,
        release=wanted.release,
        archs=wanted.archs,
        model=wanted.model,
        drafter=wanted.drafter,
        links=wanted.links,
    )
    blocked = {finding.code for finding in found if finding.severity is Severity.BLOCK}
    if blocked - {TRUST_RULE}:
        return None
    stack = _with(stack, trust_remote_code=TRUST_RULE in blocked)
    fit = _fit(wanted, stack, data)
    room = (fit.free_bytes - fit.needed_bytes) / max(fit.free_before_load_bytes, 1)
    best = min(data.fraction.advise_most, int((FIRST_FRACTION + room) * 100) / 100)
    if not 0 < best < 1:
        return None
    stack = _with(stack, mem_fraction_static=best)
    stack = _with(stack, context_length=_context(wanted, _fit(wanted, stack, data)))
    fit = _fit(wanted, stack, data)
    if fit.verdict is Verdict.DOES_NOT_FIT:
        return None
    return Proposal(stack=stack, fit=fit, reasons=_reasons(stack, fit, wanted))


def _stack(wanted: Wanted, parallel: Parallel, engine: EngineSettings) -> Stack:
    kind = wanted.drafter.kind if wanted.drafter else None
    drafter = None
    if wanted.drafter is not None and wanted.drafter_name is not None and kind in _ALGORITHMS:
        drafter = Drafter(
            model=wanted.drafter_name, algorithm=_ALGORITHMS[kind], block_size=wanted.drafter.block_size
        )
    return Stack(
        name=wanted.name,
        summary=f"{wanted.target}, {_layout_words(parallel)}{', with its drafter' if drafter else ''}",
        model=wanted.target,
        drafter=drafter,
        parallel=parallel,
        engine=msgspec.structs.replace(engine, max_running_requests=REQUESTS),
    )


def _with(stack: Stack, **settings: object) -> Stack:
    return msgspec.structs.replace(stack, engine=msgspec.structs.replace(stack.engine, **settings))


def _fit(wanted: Wanted, stack: Stack, data: MemoryData) -> MemoryFit:
    return fit_memory(
        stack,
        release=wanted.release,
        model=wanted.model,
        gpu=wanted.gpu,
        data=data,
        drafter=wanted.drafter,
        weights=wanted.weights,
    )


def _context(wanted: Wanted, fit: MemoryFit) -> int | None:
    """The longest context of which a few requests fit; ``None`` where the model's own does."""
    most = fit.kv_tokens // SEQUENCES // STEP * STEP
    own = wanted.model.context_length
    return None if own is None or most >= own or most <= 0 else most


def _reasons(stack: Stack, fit: MemoryFit, wanted: Wanted) -> tuple[str, ...]:
    parallel = stack.parallel
    found = [f"{fit.verdict.value}: {fit.reason}", f"{fit.kv_tokens} tokens of KV"]
    if stack.gpu_count < wanted.gpu_count:
        found.append(f"leaves {wanted.gpu_count - stack.gpu_count} GPUs free")
    if parallel.pp > 1:
        found.append("pipeline stages: little traffic between GPUs, slower for one request, no drafter")
    if parallel.ep > 1:
        found.append("ep moves whole experts to a GPU: the same bytes, faster or slower by host, so measure")
    if wanted.links == "pcie" and parallel.tp > 4:
        found.append("every layer sums over all GPUs through PCIe")
    return tuple(found)


def _order(proposal: Proposal) -> tuple[int, int, int, int]:
    parallel = proposal.stack.parallel
    return (-RANK[proposal.fit.verdict], parallel.pp, -proposal.fit.kv_tokens // STEP, parallel.ep)


def _layout_words(parallel: Parallel) -> str:
    sizes = {"tp": parallel.tp, "ep": parallel.ep, "pp": parallel.pp}
    return ", ".join(f"{name} {size}" for name, size in sizes.items() if size > 1) or "one GPU"


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]


def stack_yaml(proposal: Proposal) -> str:
    """The proposal as a stack file, with the reasons as its head."""
    import yaml

    tree = msgspec.to_builtins(proposal.stack)
    blank = msgspec.to_builtins(Stack(name="", summary="", model=""))
    kept = {key: _changed(value, blank.get(key)) for key, value in tree.items() if key != "name"}
    said = {key: value for key, value in kept.items() if value not in (None, {}, [], ())}
    body = yaml.safe_dump(said, sort_keys=False, width=100)
    return "".join(f"# {reason}\n" for reason in proposal.reasons) + body


def _changed(value: object, default: object) -> object:
    """A map without what equals the default; a drafter's empty fields go too."""
    if not isinstance(value, dict):
        return value if value != default else None
    base = default if isinstance(default, dict) else {}
    return {key: inner for key, inner in value.items() if inner is not None and inner != base.get(key)}
