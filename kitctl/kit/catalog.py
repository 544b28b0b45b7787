"""Which stacks, overlays and parts does the kit hold, and what does a stack say once its parts are merged?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from kitctl.errors import Exit, KitError
from kitctl.kit.addon_images import IMAGES_FILE, AddonImage, read_addon_images
from kitctl.kit.layers import Layer, Merged, merge_layers, tree_of_setting, without_path
from kitctl.kit.near import did_you_mean
from kitctl.kit.overlay import Overlay, read_overlay
from kitctl.kit.stack import Stack
from kitctl.kit.typed import read_typed
from kitctl.kit.yaml_reader import read_yaml


@dataclass(frozen=True, kw_only=True)
class KitTexts:
    """The kit's text files by path relative to the kit (``compose/stacks/ep4.yaml``), the user's own by
    path relative to the configuration folder (``stacks/mine.yaml``). The user's win by name."""

    kit: Mapping[str, str]
    user: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class NamedText:
    """A stack, part or overlay file: where it stands and what it says."""

    source: str
    text: str
    is_users: bool


@dataclass(frozen=True, kw_only=True)
class ResolvedStack:
    """A stack with its parts merged, and which file set each dotted path."""

    stack: Stack
    merged: Merged
    is_users: bool


@dataclass(frozen=True, kw_only=True)
class BrokenStack:
    """A stack file that cannot be read, or whose parts cannot, and why."""

    name: str
    is_users: bool
    error: KitError


def named_texts(texts: KitTexts, kind: str) -> dict[str, NamedText]:
    """The files of one kind (``stacks``, ``parts``, ``overlays``) by name; the user's replace the kit's."""
    found: dict[str, NamedText] = {}
    for path, text in sorted(texts.kit.items()):
        if path.startswith(f"compose/{kind}/") and path.endswith(".yaml"):
            found[PurePosixPath(path).stem] = NamedText(source=path, text=text, is_users=False)
    for path, text in sorted(texts.user.items()):
        if path.startswith(f"{kind}/") and path.endswith(".yaml"):
            found[PurePosixPath(path).stem] = NamedText(source=f"~config/{path}", text=text, is_users=True)
    return found


def stack_names(texts: KitTexts) -> tuple[str, ...]:
    """Names of all stacks, sorted."""
    return tuple(sorted(named_texts(texts, "stacks")))


def all_stacks(texts: KitTexts) -> tuple[tuple[ResolvedStack, ...], tuple[BrokenStack, ...]]:
    """All stacks by name, and apart those that are broken, so that one broken file hides no other."""
    read: list[ResolvedStack] = []
    broken: list[BrokenStack] = []
    for name, named in sorted(named_texts(texts, "stacks").items()):
        try:
            read.append(resolve_stack(texts, name))
        except KitError as error:
            broken.append(BrokenStack(name=name, is_users=named.is_users, error=error))
    return tuple(read), tuple(broken)


def unknown_stack(name: str, known: Mapping[str, Any]) -> KitError:
    """The refusal of a stack that there is not: ``unknown-stack`` (exit 2), with the nearest that there is."""
    return _unknown("stack", name, known)


def resolve_stack(
    texts: KitTexts,
    name: str,
    *,
    settings: Sequence[tuple[str, Any]] = (),
    below: Sequence[Layer] = (),
    above: Sequence[Layer] = (),
    without: Sequence[str] = (),
) -> ResolvedStack:
    """The stack ``name``: ``below``, its parts, its own file, ``above`` and ``--set`` values laid over one another.

    ``without`` names dotted paths that are dropped from the stack's own layers. Raises KitError
    ``unknown-stack``, ``unknown-part``, ``bad-yaml`` or ``bad-stack`` (exit 2).
    """
    stacks = named_texts(texts, "stacks")
    if name not in stacks:
        raise unknown_stack(name, stacks)
    own = stacks[name]
    tree = read_yaml(own.text, source=own.source)
    uses = tree.pop("uses", [])
    _refuse_own_name(tree, own.source)
    inner = [*_part_layers(texts, uses, own.source), Layer(source=own.source, tree=tree)]
    for path, _ in settings:
        _refuse_own_name({path: None}, f"--set {path}")
    chosen = [Layer(source=f"--set {path}", tree=tree_of_setting(path, value)) for path, value in settings]
    merged = merge_layers([*below, *(_thinned(layer, without) for layer in inner), *above, *chosen])
    stack = read_typed(
        {**merged.tree, **_environment_texts(merged.tree), "name": name},
        Stack,
        source_of=lambda path: _source_of(merged, path, own.source),
        code="bad-stack",
    )
    return ResolvedStack(stack=stack, merged=merged, is_users=own.is_users)


def _refuse_own_name(tree: Mapping[str, Any], source: str) -> None:
    if "name" in tree:
        raise KitError(
            "bad-stack",
            f"{source}: name: a stack is called as its file",
            remedy=f"take name out of {source}, or rename the file",
            exit_code=Exit.USAGE,
        )


def _environment_texts(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers in ``environment`` as the text that a process sees; whatever else stands there is left to the types."""
    found = tree.get("environment")
    if not isinstance(found, Mapping):
        return {}
    numbers = {
        name: str(value)
        for name, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    return {"environment": {**found, **numbers}}


def _thinned(layer: Layer, without: Sequence[str]) -> Layer:
    tree: Mapping[str, Any] = layer.tree
    for path in without:
        tree = without_path(tree, path)
    return Layer(source=layer.source, tree=tree)


def _part_layers(texts: KitTexts, uses: Any, source: str) -> list[Layer]:
    if not isinstance(uses, list) or not all(isinstance(part, str) for part in uses):
        raise KitError(
            "bad-stack",
            f"{source}: uses: must be a list of part names",
            remedy=f"mend uses in {source}",
            exit_code=Exit.USAGE,
        )
    parts = named_texts(texts, "parts")
    for part in uses:
        if part not in parts:
            raise _unknown("part", part, parts)
    return [
        Layer(source=parts[part].source, tree=read_yaml(parts[part].text, source=parts[part].source))
        for part in uses
    ]


def _source_of(merged: Merged, path: str, default: str) -> str:
    """The file that set ``path``, or the nearest part of it that is known."""
    steps = re.sub(r"\[[^\]]*\]", "", path).split(".")
    for length in range(len(steps), 0, -1):
        source = merged.origin.get(".".join(steps[:length]))
        if source:
            return source
    return default


def load_overlays(texts: KitTexts) -> dict[str, Overlay]:
    """All overlays by name. Raises KitError ``bad-yaml`` or ``bad-overlay`` (exit 2)."""
    return {
        name: read_overlay(
            name,
            read_yaml(found.text, source=found.source),
            source=found.source,
            text=found.text,
            files=_addon_files(texts, name),
        )
        for name, found in named_texts(texts, "overlays").items()
    }


def _addon_files(texts: KitTexts, name: str) -> dict[str, str]:
    """The files of ``addons/NAME/`` as ``NAME-FILE``; the user's own win by name."""
    kits = {path.removeprefix("compose/"): text for path, text in texts.kit.items()}
    found = {**kits, **texts.user}
    folder = f"addons/{name}/"
    return {
        f"{name}-{path.removeprefix(folder)}": text
        for path, text in sorted(found.items())
        if path.startswith(folder)
    }


def addon_images(texts: KitTexts) -> dict[str, AddonImage]:
    """The images of add-ons by name; the user's own win. Raises KitError ``bad-addon-images`` (exit 2)."""
    kits = read_addon_images(texts.kit.get(f"compose/{IMAGES_FILE}", ""), source=f"compose/{IMAGES_FILE}")
    return kits | read_addon_images(texts.user.get(IMAGES_FILE, ""), source=f"~config/{IMAGES_FILE}")


def pick_named_overlay(overlays: Mapping[str, Overlay], name: str) -> Overlay:
    """The overlay ``name``. Raises KitError ``unknown-overlay`` (exit 2) with the nearest name."""
    if name not in overlays:
        raise _unknown("overlay", name, overlays)
    return overlays[name]


def _unknown(kind: str, name: str, known: Mapping[str, Any]) -> KitError:
    listing = {"stack": "kitctl stacks", "overlay": "kitctl overlays"}.get(kind, "ls compose/parts")
    return KitError(
        f"unknown-{kind}",
        f"there is no {kind} named {name!r}",
        evidence=(did_you_mean(name, known),),
        remedy=f"choose one that '{listing}' prints",
        exit_code=Exit.USAGE,
    )
