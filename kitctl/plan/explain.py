"""Which file, flag, fact or rule set a value of the plan?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kitctl.errors import Exit, KitError
from kitctl.kit.near import near_name
from kitctl.kit.overlay import Overlay
from kitctl.plan.flag_names import split_flags
from kitctl.plan.flag_spelling import Spellings, flag_name
from kitctl.plan.types import Plan

DERIVED = ("memory.", "finding.", "argv.")
OWN_DEFAULTS = {
    "engine.graphs": "left out: decode under DFLASH, on without",
    "serve.model_name": "left out: the model's own name",
    "drafter.block_size": "left out: the drafter's own",
}
LEFT_TO_ENGINE = "left out: SGLang's default"
KIT_DEFAULT = "left out: the default of a stack"


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """One value of the plan and what decided it."""

    field: str
    value: Any
    reason: str


def explain(field: str, plan: Plan, *, spellings: Spellings, overlays: Mapping[str, Overlay]) -> Explanation:
    """The explanation of ``field``: ``parallel.tp``, ``--tp-size``, ``environment.X``, ``overlay``, ``memory.…``
    or a finding's code. Raises KitError ``unknown-field`` (exit 2) with the nearest ones."""
    used = tuple(overlays[name] for name in plan.overlays if name in overlays)
    known = {one.field: one for one in explain_all(plan, spellings=spellings, overlays=used)}
    for name in (field, f"argv.{field}", f"finding.{field}"):
        if name in known:
            return known[name]
    ends = [name for name in known if name.endswith(f".{field}")]
    ends = [name for name in ends if not name.startswith(DERIVED)] or ends
    if len(ends) == 1:
        return known[ends[0]]
    near = near_name(field, known)
    raise KitError(
        "unknown-field",
        f"the plan has no field {field!r}" if not ends else f"{field!r} is short for {' and '.join(ends)}",
        evidence=(f"did you mean {near!r}?",) if near and not ends else (),
        remedy="name a setting of the stack, a flag, environment.NAME, overlay, gpus, image or memory.NAME",
        exit_code=Exit.USAGE,
    )


def explain_all(plan: Plan, *, spellings: Spellings, overlays: tuple[Overlay, ...]) -> Iterator[Explanation]:
    """Every value of the plan with its reason."""
    settings = dict(_leaves(msgspec.to_builtins(plan.stack)))
    for path, value in settings.items():
        yield Explanation(field=path, value=value, reason=_setting_reason(path, value, plan))
    for name, value in plan.environment.items():
        yield Explanation(
            field=f"environment.{name}", value=value, reason=_environment_reason(name, plan, overlays)
        )
    for name, values in split_flags(plan.argv):
        reason = _flag_reason(name, plan, spellings=spellings, overlays=overlays)
        yield Explanation(field=f"argv.{name}", value=" ".join(values) or True, reason=reason)
    yield Explanation(field="overlay", value=" + ".join(plan.overlays), reason=plan.why["overlay"])
    yield Explanation(field="image", value=plan.image.reference, reason=plan.why["image"])
    yield Explanation(
        field="gpus",
        value=", ".join(plan.gpus.ids) or "none",
        reason=plan.why.get("gpus", "none are reserved"),
    )
    yield from _memory_reasons(plan.memory or {})
    for finding in plan.findings:
        evidence = "; ".join(finding.evidence[-1:]) or finding.remedy
        yield Explanation(field=f"finding.{finding.code}", value=finding.cause, reason=evidence)


def _setting_reason(path: str, value: Any, plan: Plan) -> str:
    if path in plan.why:
        return plan.why[path]
    if path in OWN_DEFAULTS and value is None:
        return OWN_DEFAULTS[path]
    return LEFT_TO_ENGINE if value is None and path.startswith("engine.") else KIT_DEFAULT


def _environment_reason(name: str, plan: Plan, overlays: tuple[Overlay, ...]) -> str:
    if name in plan.stack.environment:
        return plan.why.get(f"environment.{name}", "environment of the stack")
    for overlay in reversed(overlays):
        if overlay.environment.get(name) == plan.environment[name]:
            return f"environment of overlay {overlay.name}: {overlay.block.summary}"
    return f"narrowed by the topology of the GPUs: {plan.why['overlay']}"


def _flag_reason(name: str, plan: Plan, *, spellings: Spellings, overlays: tuple[Overlay, ...]) -> str:
    for key in plan.stack.engine.flags:
        if flag_name(key) == name:
            return plan.why.get(f"engine.flags.{key}", "engine.flags of the stack")
    setting = next((one for one in spellings.setting if name in one.flags()), None)
    if setting is not None:
        return _spelled_reason(setting.stack_path, name, plan)
    for overlay in overlays:
        if name in {flag_name(key) for key in (*overlay.block.flags, *overlay.block.flags_above_tp2)}:
            return f"flags of overlay {overlay.name}: {overlay.block.summary}"
    return "given after -- on the command line, or by the kit for an API key"


def _spelled_reason(path: str, flag: str, plan: Plan) -> str:
    cap = (plan.memory or {}).get("max_total_tokens")
    if path == "engine.max_total_tokens" and cap is not None:
        return "the memory fit: what target and drafter pools hold within the fraction"
    value = dict(_leaves(msgspec.to_builtins(plan.stack))).get(path)
    if path in ("serve.port", "serve.bind"):
        return "inside the container; the host side is serve.port and serve.bind"
    if path == "engine.metrics":
        return "every stack serves /metrics: acceptance and graph use are read there"
    spelled = f"spelling of {path} in SGLang {plan.image.release or 'of an own image'}"
    return f"{spelled}; {_setting_reason(path, value, plan)}"


def _memory_reasons(memory: Mapping[str, Any]) -> Iterator[Explanation]:
    for name in ("verdict", "kv_tokens", "free_bytes", "max_total_tokens", "mem_fraction_static"):
        if name in memory:
            reason = memory["mem_fraction_source"] if name == "mem_fraction_static" else memory["reason"]
            yield Explanation(field=f"memory.{name}", value=memory[name], reason=reason)
    for amount in (*memory.get("taken", ()), *memory.get("needed", ())):
        yield Explanation(
            field=f"memory.{amount['name']}", value=f"{amount['bytes']} bytes", reason=amount["source"]
        )


def _leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Mapping) and (tree or not path):
        for name, value in tree.items():
            yield from _leaves(value, f"{path}.{name}" if path else str(name))
    else:
        yield path, tree
