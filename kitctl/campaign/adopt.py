"""The stack file that a recommendation becomes, with where it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from kitctl.campaign.events import Up
from kitctl.campaign.recommend import Recommendation, recommendation_line
from kitctl.kit.layers import Layer, merge_layers, tree_of_setting
from kitctl.kit.settings import read_setting


def pick_band(found: Sequence[Recommendation], band: str) -> Recommendation | None:
    """The recommendation of ``32-128``, or the one whose band holds ``64`` (also ``C=64``)."""
    text = band.strip().removeprefix("C=")
    exact = next((one for one in found if one.band == text), None)
    if exact is not None or not text.isdigit():
        return exact
    return next((one for one in found if one.first <= int(text) <= one.last), None)


def adopted_from(name: str, campaign: str) -> str:
    """How the file begins that the campaign (or search) writes for a stack of that name."""
    return f"# {name}: adopted from campaign {campaign} ("


def adopted_text(
    own_tree: Mapping[str, Any],
    settings: Sequence[str],
    *,
    name: str,
    chosen: Recommendation,
    campaign: str,
    digest: str,
    ups: Sequence[Up],
) -> str:
    """The stack file: the winner's own with its settings laid over it, and its provenance as comments."""
    layers = [Layer(source="", tree=own_tree)]
    for word in settings:
        path, value = read_setting(word)
        layers.append(Layer(source="", tree=tree_of_setting(path, value)))
    merged = dict(merge_layers(layers).tree)
    merged["summary"] = f"{merged.get('summary', chosen.winner)} (adopted for C={chosen.band})"
    head = [
        f"{adopted_from(name, campaign)}{digest}).",
        f"# {recommendation_line(chosen)}",
        *(f"# C={choice.concurrency}: {choice.rate:.1f} output tokens/s" for choice in chosen.choices),
        *(f"# run {up.run}, image {up.image_id or 'not known'}" for up in ups),
        *(f"# model {model}" for model in dict.fromkeys(m for up in ups for m in up.models)),
    ]
    return "\n".join(head) + "\n" + yaml.safe_dump(merged, sort_keys=False)
