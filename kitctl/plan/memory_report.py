"""How is a memory fit told: as findings, as JSON, as lines for a person?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kitctl.finding import Finding, Severity
from kitctl.plan.memory import MemoryFit
from kitctl.plan.memory_verdict import Verdict, gib
from kitctl.plan.reserves import Amount

SCHEMA = "kitctl.memory/1"


def memory_findings(fit: MemoryFit) -> tuple[Finding, ...]:
    """``memory-does-not-fit`` blocks, ``memory-tight`` warns, ``memory-tokens-capped`` notes the cap."""
    found: list[Finding] = []
    if fit.verdict is not Verdict.FITS:
        blocks = fit.verdict is Verdict.DOES_NOT_FIT
        found.append(
            Finding(
                code="memory-does-not-fit" if blocks else "memory-tight",
                severity=Severity.BLOCK if blocks else Severity.WARN,
                cause=fit.reason,
                remedy="; or ".join(fit.advice) or "leave it, if long requests and images are rare",
                evidence=tuple(_line(amount) for amount in (*fit.taken, *fit.needed)),
                where="engine.mem_fraction_static",
            )
        )
    if fit.max_total_tokens is not None:
        found.append(_capped(fit))
    return tuple(found)


def _capped(fit: MemoryFit) -> Finding:
    budgeted, real = fit.cells.budgeted, fit.cells.real
    return Finding(
        code="memory-tokens-capped",
        severity=Severity.NOTE,
        cause=f"the engine would size its KV cache at {budgeted} B a token, but target and drafter take {real} B: "
        f"{fit.kv_tokens_uncapped} tokens would go beyond its share of memory",
        remedy=f"the plan gives --max-total-tokens {fit.max_total_tokens}; nothing to do",
        where="engine.max_total_tokens",
    )


def memory_json(fit: MemoryFit) -> dict[str, Any]:
    """The fit with every number and its source. Sizes in bytes, for the GPU that holds the most."""
    return {
        "schema": SCHEMA,
        "verdict": fit.verdict.value,
        "reason": fit.reason,
        "gpu_total_bytes": fit.gpu_total_bytes,
        "free_before_load_bytes": fit.free_before_load_bytes,
        "weight_bytes": fit.weight_bytes,
        "drafter_weight_bytes": fit.drafter_weight_bytes,
        "loaded_bytes": fit.loaded_bytes,
        "weights_source": fit.weights_source,
        "mem_fraction_static": round(fit.fraction, 4),
        "mem_fraction_source": fit.fraction_source,
        "kv_budget_bytes": fit.kv_budget_bytes,
        "kv_bytes_per_token": {
            "target": fit.cells.target,
            "drafter": fit.cells.drafter,
            "budgeted_by_engine": fit.cells.budgeted,
        },
        "kv_tokens": fit.kv_tokens,
        "kv_tokens_uncapped": fit.kv_tokens_uncapped,
        "max_total_tokens": fit.max_total_tokens,
        "context_length": fit.context_length,
        "sequences_at_context": round(fit.sequences_at_context, 2),
        "running_requests": fit.running_requests,
        "free_bytes": fit.free_bytes,
        "free_bytes_uncapped": fit.free_bytes_uncapped,
        "needed_bytes": fit.needed_bytes,
        "pipeline_stage": fit.stage,
        "taken": [_amount(amount) for amount in fit.taken],
        "needed": [_amount(amount) for amount in fit.needed],
        "advice": list(fit.advice),
    }


def memory_lines(tree: Mapping[str, Any]) -> list[str]:
    """The fit, as ``memory_json`` gives it, for a person: the verdict first, then what takes what."""
    cell = tree["kv_bytes_per_token"]
    share = f"{cell['target']} B" + (f" + {cell['drafter']} B drafter" if cell["drafter"] else "")
    fraction = f"fraction {tree['mem_fraction_static']:.3f} ({tree['mem_fraction_source']})"
    lines = [
        f"memory of each GPU: {tree['verdict']} ({tree['reason']})",
        f"  KV cache: {tree['kv_tokens']} tokens ({share} each), {tree['sequences_at_context']:.1f} requests of "
        f"{tree['context_length']}; {fraction}",
    ]
    lines += [f"  {_text(one)}" for one in tree["taken"]]
    lines += [f"  to be left free: {_text(one)}" for one in tree["needed"]]
    return lines + [f"  advice: {line}" for line in tree["advice"]]


def _text(amount: Mapping[str, Any]) -> str:
    return f"{gib(amount['bytes']):>11}  {amount['name']} ({amount['source']})"


def _line(amount: Amount) -> str:
    return f"{gib(amount.size_bytes):>11}  {amount.name} ({amount.source})"


def _amount(amount: Amount) -> dict[str, Any]:
    return {"name": amount.name, "bytes": amount.size_bytes, "source": amount.source}
