"""What does a drafter's config.json say of it? Type and reader.

Fields of DFlash are looked for where SGLang looks (0.5.16, speculative/dflash_utils.py:
parse_dflash_draft_config): ``dflash_config`` first, then the top level.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kitctl.kit.config_section import Section, read_config
from kitctl.kit.model_facts import Quantization, context_length_of, read_quantization, text_section


class DrafterKind(StrEnum):
    """What sort of drafter the file describes."""

    DFLASH = "DFlash"
    DFLASH2 = "DFlash2"
    EAGLE = "EAGLE"
    EAGLE3 = "EAGLE3"
    STANDALONE = "standalone"


@dataclass(frozen=True, kw_only=True)
class DrafterFacts:
    """The shape of a drafter. ``mask_at_top_level``: the mask token stands beside ``dflash_config``, not in it.

    ``target_hidden_size`` is what the file states of its target (EAGLE3), ``target_layer_ids`` the captured
    target layers (``None`` lets SGLang space them evenly), ``draft_vocab_size`` a reduced vocabulary.
    """

    kind: DrafterKind
    architecture: str
    model_type: str | None
    hidden_size: int
    target_hidden_size: int | None
    layers: int
    intermediate_size: int
    vocab_size: int | None
    draft_vocab_size: int | None
    heads: int
    kv_heads: int
    head_dim: int
    block_size: int | None
    num_target_layers: int | None
    target_layer_ids: tuple[int, ...] | None
    mask_token: str | None
    mask_token_id: int | None
    mask_at_top_level: bool
    layer_types: tuple[str, ...]
    sliding_window: int | None
    context_length: int | None
    attention_bias: bool
    quantization: Quantization | None

    def captured_layers(self, target_layers: int) -> tuple[int, ...]:
        """The target layers whose hidden states are captured: as stated, else spaced evenly from 1 to N - 3.

        Source: SGLang 0.5.16, speculative/dflash_utils.py: build_target_layer_ids.
        """
        if self.target_layer_ids is not None:
            return self.target_layer_ids
        if self.layers == 1:
            return (target_layers // 2,)
        span = target_layers - 4
        return tuple(round(1 + index * span / (self.layers - 1)) for index in range(self.layers))


def read_drafter_facts(text: str, *, source: str = "drafter config.json") -> DrafterFacts:
    """The facts of a drafter. Raises KitError ``model-config`` with the path of what is missing or wrong."""
    root = read_config(text, source=source)
    part = text_section(root)
    flash = root.section_or_none("dflash_config")
    inner = flash or root
    heads = part.positive("num_attention_heads")
    return DrafterFacts(
        kind=_kind(root, flash),
        architecture=next(iter(root.texts("architectures")), "unknown"),
        model_type=root.text_or_none("model_type"),
        hidden_size=part.positive("hidden_size"),
        target_hidden_size=part.whole_or_none("target_hidden_size"),
        layers=part.positive("num_hidden_layers"),
        intermediate_size=part.whole("intermediate_size"),
        vocab_size=part.whole_or_none("vocab_size"),
        draft_vocab_size=part.whole_or_none("draft_vocab_size"),
        heads=heads,
        kv_heads=part.whole_or_none("num_key_value_heads") or heads,
        head_dim=part.whole_or_none("head_dim") or part.positive("hidden_size") // heads,
        block_size=_whole(inner, root, "block_size"),
        num_target_layers=_whole(inner, root, "num_target_layers"),
        target_layer_ids=_layer_ids(inner, root),
        mask_token=inner.text_or_none("mask_token") or root.text_or_none("mask_token"),
        mask_token_id=_whole(inner, root, "mask_token_id"),
        mask_at_top_level=inner.first("mask_token_id", "mask_token") is None
        and root.first("mask_token_id", "mask_token") is not None,
        layer_types=part.texts("layer_types"),
        sliding_window=part.whole_or_none("sliding_window"),
        context_length=context_length_of(part),
        attention_bias=part.flag("attention_bias", default=False),
        quantization=read_quantization(root, part),
    )


def _whole(inner: Section, root: Section, name: str) -> int | None:
    found = inner.whole_or_none(name)
    return found if found is not None else root.whole_or_none(name)


def _layer_ids(inner: Section, root: Section) -> tuple[int, ...] | None:
    found = inner.wholes_or_none("target_layer_ids")
    return found if found is not None else root.wholes_or_none("target_layer_ids")


def _kind(root: Section, flash: Section | None) -> DrafterKind:
    name = next(iter(root.texts("architectures")), "").lower()
    if flash or "dflash" in name:
        inner = flash or root
        return DrafterKind.DFLASH2 if inner.first("conv_kernel_size", "selector_rank") else DrafterKind.DFLASH
    if "eagle3" in name:
        return DrafterKind.EAGLE3
    return DrafterKind.EAGLE if "eagle" in name or "nextn" in name else DrafterKind.STANDALONE
