"""What may be tried next after a failed start? Pure: diagnoses and the stack's settings in, changed settings out.

Each diagnosis may name a ladder of changes, gentlest first. A rung that would change nothing (already so, or at its
bound) is stepped over; once all rungs were tried, those that go by steps (a fraction lowered, a batch halved) may be
tried again from where they stand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from kitctl.kit.failures import Change, Rung, Scalar
from kitctl.kit.layers import Layer, merge_layers, tree_of_setting
from kitctl.watch.diagnose import Diagnosis

FLOAT_DIGITS = 4


@dataclass(frozen=True, kw_only=True)
class Step:
    """One try: for which failure, which rung of its ladder (from 1), and the settings that it comes to."""

    code: str
    rung: int
    why: str
    settings: tuple[tuple[str, Scalar], ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The step as ``--set`` arguments."""
        return tuple(f"{path}={_word(value)}" for path, value in self.settings)


def next_step(
    diagnoses: Sequence[Diagnosis], settings: Mapping[str, Any], *, tried: Sequence[Step] = ()
) -> Step | None:
    """The gentlest step not yet tried against the first diagnosis that has any; ``None`` when nothing is left.

    ``settings`` is the stack as it was started.
    """
    for found in diagnoses:
        for again in (False, True):
            for number, rung in enumerate(found.ladder, start=1):
                was_tried = any(step.code == found.code and step.rung == number for step in tried)
                may = again and _goes_by_steps(rung) if was_tried else not again
                changed = apply_rung(rung, settings) if may else ()
                if changed:
                    return Step(code=found.code, rung=number, why=rung.why, settings=changed)
    return None


def apply_rung(rung: Rung, settings: Mapping[str, Any]) -> tuple[tuple[str, Scalar], ...]:
    """The settings that the rung comes to; empty when it changes nothing."""
    wanted = [
        (change.path, changed_value(change, _value_at(settings, change.path))) for change in rung.changes
    ]
    return tuple(
        (path, value) for path, value in wanted if value is not None and value != _value_at(settings, path)
    )


def changed_value(change: Change, now: Any) -> Scalar | None:
    """The value after the change, within its bounds; ``None`` when the bound is reached already."""
    if change.to is not None:
        return change.to
    base = now if isinstance(now, int | float) else change.start
    if base is None:
        return None
    moved = base + change.add if change.add is not None else base * (change.times or 1.0)
    bounded = max(moved, change.least) if change.least is not None else moved
    bounded = min(bounded, change.most) if change.most is not None else bounded
    value: Scalar = (
        round(bounded) if isinstance(base, int) or _is_count(change) else round(bounded, FLOAT_DIGITS)
    )
    return None if value == now else value


def override_text(own_tree: Mapping[str, Any], steps: Sequence[Step], *, name: str, run_id: str) -> str:
    """The stack file with the steps laid over it: put it into the configuration folder to keep them."""
    layers = [Layer(source="", tree=own_tree)]
    for step in steps:
        layers += [Layer(source="", tree=tree_of_setting(path, value)) for path, value in step.settings]
    merged = merge_layers(layers).tree
    head = [f"# {name}, as run {run_id} came up. Each change and why:"]
    head += [f"# {word}  ({step.code}: {step.why})" for step in steps for word in step.words]
    return "\n".join(head) + "\n" + yaml.safe_dump(dict(merged), sort_keys=False)


def _goes_by_steps(rung: Rung) -> bool:
    return all(change.to is None for change in rung.changes)


def _is_count(change: Change) -> bool:
    """Whether the setting is a whole number: a change by factors of something that starts whole."""
    return change.times is not None and change.start is not None and change.start >= 2


def _value_at(settings: Mapping[str, Any], dotted: str) -> Any:
    value: Any = settings
    for step in dotted.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return None
        value = value[step]
    return value


def _word(value: Scalar) -> str:
    """A value as YAML reads it back: text that looks like a number is quoted."""
    if isinstance(value, str) and yaml.safe_load(value) != value:
        return value if value in ("on", "off", "yes", "no") else json.dumps(value)
    return json.dumps(value) if not isinstance(value, str) else value
