"""Which names may a rule of the engine read, and what are their values for one stack?

Every name is always there; ``None`` means unknown or not given. Functions: ``flag("x")`` is the value of ``--x`` in
the argv (``True`` for a bare switch), ``has("x")`` whether it is there, ``env("X")`` and ``has_env("X")`` the same for
the environment, ``arch(12)`` whether a GPU of that compute capability (major, or ``"12.1"``) is used,
``outside(ids, n)`` those not in 0 ... n-1, ``divisors(n)`` and ``fitting(a, b)`` the divisors of one or of both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kitctl.kit.drafter_facts import DrafterFacts
from kitctl.kit.model_facts import ModelFacts
from kitctl.kit.stack import Algorithm, Stack
from kitctl.plan.flag_spelling import graphs_of


def rule_values(
    stack: Stack,
    *,
    release: str,
    argv: tuple[str, ...],
    archs: tuple[str, ...],
    environment: Mapping[str, str],
    model: ModelFacts | None,
    drafter: DrafterFacts | None,
    gpu_count: int | None,
    links: str | None,
) -> dict[str, Any]:
    """All names for one stack."""
    return {
        "release": release,
        "archs": archs or None,
        "stack_archs": stack.archs or None,
        "gpu_count": gpu_count,
        "links": links,
        "own_image": stack.image.reference is not None,
        **_stack_values(stack, flags_of(argv)),
        **_model_values(model),
        **_drafter_values(drafter, model),
        **_functions(flags_of(argv), environment, archs),
    }


def flags_of(argv: tuple[str, ...]) -> dict[str, str | bool]:
    """Flag name without dashes -> its value, ``True`` for a bare switch; the last one given counts."""
    found: dict[str, str | bool] = {}
    current: str | None = None
    for word in argv:
        if word.startswith("--"):
            current, equals, value = word[2:].partition("=")
            found[current] = value if equals else True
        elif current is not None and found[current] is True:
            found[current] = word
    return found


def _stack_values(stack: Stack, flags: Mapping[str, str | bool]) -> dict[str, Any]:
    engine, drafter = stack.engine, stack.drafter
    settings = {name: getattr(engine, name) for name in engine.__struct_fields__ if name != "flags"}
    sizes = {name: getattr(stack.parallel, name) for name in ("tp", "ep", "pp", "dp")}
    named = settings | {name: _given(flags, name) for name, value in settings.items() if not value}
    named |= {name: _size(flags, name) or value for name, value in sizes.items()}
    block = drafter.block_size if drafter else None
    return named | {
        "world": named["dp"] * named["tp"] * named["pp"],
        "moe_tp": max(named["tp"] // max(named["ep"], 1), 1),
        "graphs": graphs_of(stack).value,
        "model_name": stack.serve.model_name or stack.model,
        "algorithm": drafter.algorithm.value if drafter else None,
        "dflash": bool(drafter and drafter.algorithm is Algorithm.DFLASH),
        "set_block_size": _given(flags, "speculative_dflash_block_size") if block is None else block,
        "draft_window": drafter.draft_window if drafter else None,
        "draft_backend": drafter.attention_backend if drafter else None,
    }


def _size(flags: Mapping[str, str | bool], name: str) -> int | None:
    value = _given(flags, f"{name}_size")
    return value if type(value) is int else None


def _given(flags: Mapping[str, str | bool], setting: str) -> Any:
    """What the argv says of a setting that the stack leaves out: a number where it reads as one."""
    value = flags.get(setting.replace("_", "-"))
    number = _number(value) if isinstance(value, str) else None
    if number is None:
        return value
    return int(number) if number == int(number) else number


def _model_values(model: ModelFacts | None) -> dict[str, Any]:
    experts = model.experts if model else None
    quant = model.quantization if model else None
    return {
        "model_known": model is not None,
        "architecture": model.architecture if model else None,
        "custom_code": model.custom_code if model else None,
        "attention": model.attention.value if model else None,
        "hidden": model.hidden_size if model else None,
        "layers": model.layers if model else None,
        "heads": model.heads if model else None,
        "kv_heads": model.kv_heads if model else None,
        "head_dim": model.head_dim if model else None,
        "vocab": model.vocab_size if model else None,
        "mlp_width": model.intermediate_size if model and model.dense_layers else None,
        "model_context": model.context_length if model else None,
        "multimodal": bool(model and model.vision) if model else None,
        "experts": experts.count if experts else None,
        "expert_width": experts.width if experts else None,
        "shared_width": experts.shared_width if experts and experts.shared_width else None,
        "quant_method": quant.method if quant else None,
        "quant_format": f"{quant.method} {quant.format or ''} {quant.bits or ''}" if quant else None,
        "quant_bits": quant.bits if quant else None,
        "quant_group": quant.group_size if quant else None,
        "quant_rows": quant.block[0] if quant and quant.block else None,
        "quant_attention": not quant.keeps_attention if quant else None,
    }


def _drafter_values(drafter: DrafterFacts | None, model: ModelFacts | None) -> dict[str, Any]:
    if drafter is None:
        return dict.fromkeys(_DRAFTER_NAMES)
    captured = drafter.captured_layers(model.layers) if model else drafter.target_layer_ids
    return {
        "drafter_kind": drafter.kind.value,
        "drafter_architecture": drafter.architecture,
        "drafter_hidden": drafter.target_hidden_size or drafter.hidden_size,
        "drafter_layers": drafter.layers,
        "drafter_vocab": drafter.vocab_size,
        "drafter_heads": drafter.heads,
        "drafter_kv_heads": drafter.kv_heads,
        "drafter_block_size": drafter.block_size,
        "drafter_target_layers": drafter.num_target_layers,
        "captured": captured,
        "captured_count": len(captured) if captured is not None else None,
        "mask_token": drafter.mask_token,
        "mask_token_id": drafter.mask_token_id,
        "mask_at_top_level": drafter.mask_at_top_level,
        "drafter_quantized": drafter.quantization is not None,
        "drafter_slides": any("sliding" in kind for kind in drafter.layer_types),
        "drafter_window": drafter.sliding_window,
        "drafter_context": drafter.context_length,
    }


_DRAFTER_NAMES = (
    "drafter_kind",
    "drafter_architecture",
    "drafter_hidden",
    "drafter_layers",
    "drafter_vocab",
    "drafter_heads",
    "drafter_kv_heads",
    "drafter_block_size",
    "drafter_target_layers",
    "captured",
    "captured_count",
    "mask_token",
    "mask_token_id",
    "mask_at_top_level",
    "drafter_quantized",
    "drafter_slides",
    "drafter_window",
    "drafter_context",
)


def _functions(
    flags: Mapping[str, str | bool], environment: Mapping[str, str], archs: tuple[str, ...]
) -> dict[str, Callable[..., Any]]:
    return {
        "flag": lambda name: flags.get(name),
        "has": lambda name: name in flags,
        "env": lambda name: environment.get(name),
        "has_env": lambda name: name in environment,
        "arch": lambda *wanted: any(_is_arch(arch, one) for arch in archs for one in wanted),
        "outside": lambda ids, count: tuple(i for i in ids if not 0 <= i < count),
        "repeated": lambda ids: tuple(sorted({i for i in ids if ids.count(i) > 1})),
        "divisors": _divisors,
        "fitting": lambda first, second: tuple(n for n in _divisors(first) if second % n == 0),
        "upper": lambda text: str(text).upper(),
        "number": _number,
        "length": len,
    }


def _is_arch(arch: str, wanted: int | float | str) -> bool:
    text = str(wanted)
    return arch == text if "." in text else arch.partition(".")[0] == text


def _divisors(number: int) -> tuple[int, ...]:
    return tuple(n for n in range(1, number + 1) if number % n == 0)


def _number(text: Any) -> float | None:
    try:
        return float(text)
    except (TypeError, ValueError):
        return None
