"""How do the parts of a stack become one tree, and which file set each value?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Tree = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One source of settings: a file (or ``--set``) and the tree that it holds."""

    source: str
    tree: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Merged:
    """Layers laid over one another. ``origin`` maps each dotted leaf path to the source that set it."""

    tree: Tree
    origin: Mapping[str, str]


def merge_layers(layers: Sequence[Layer]) -> Merged:
    """Later layers win; maps are merged key by key, everything else is replaced whole."""
    tree: Tree = {}
    origin: dict[str, str] = {}
    for layer in layers:
        _lay_over(tree, layer.tree, origin, layer.source, ())
    return Merged(tree=tree, origin=origin)


def _lay_over(
    below: Tree, above: Mapping[str, Any], origin: dict[str, str], source: str, path: tuple[str, ...]
) -> None:
    for key, value in above.items():
        here = (*path, str(key))
        dotted = ".".join(here)
        if isinstance(value, Mapping):
            inner = below.get(key)
            below[key] = dict(inner) if isinstance(inner, Mapping) else {}
            if not isinstance(inner, Mapping):
                origin[dotted] = source
            _lay_over(below[key], value, origin, source, here)
        else:
            below[key] = value
            origin[dotted] = source


def without_path(tree: Mapping[str, Any], dotted: str) -> Tree:
    """A copy of ``tree`` without the value at ``dotted``; unchanged when nothing is there."""
    head, _, rest = dotted.partition(".")
    if not rest:
        return {key: value for key, value in tree.items() if key != head}
    inner = tree.get(head)
    if not isinstance(inner, Mapping):
        return dict(tree)
    return {**tree, head: without_path(inner, rest)}


def value_at(tree: Mapping[str, Any], dotted: str) -> Any | None:
    """The value at ``dotted``, or ``None`` when nothing is there."""
    here: Any = tree
    for key in dotted.split("."):
        if not isinstance(here, Mapping) or key not in here:
            return None
        here = here[key]
    return here


def tree_of_setting(dotted: str, value: Any) -> Tree:
    """``parallel.tp``, 4 -> ``{"parallel": {"tp": 4}}``."""
    tree: Any = value
    for key in reversed(dotted.split(".")):
        tree = {key: tree}
    return dict(tree)
