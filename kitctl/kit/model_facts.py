"""What does a model's config.json say of its shape? Types, and the reader of a target model.

Names follow the files of the Hugging Face hub; the text part of a multimodal model is found the way SGLang finds
it (0.5.16, utils/hf_transformers/common.py: get_hf_text_config). Nothing is known of a model beyond its file.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kitctl.kit.config_section import Section, read_config

TEXT_SECTIONS = ("thinker_config", "llm_config", "language_config", "text_config")
CONTEXT_NAMES = (
    "max_sequence_length",
    "seq_length",
    "max_seq_len",
    "model_max_length",
    "max_position_embeddings",
)
EXPERT_COUNT_NAMES = ("n_routed_experts", "num_experts", "num_local_experts")
SHARED_WIDTH_NAMES = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size")


class Attention(StrEnum):
    """How keys and values are kept: latent (MLA), grouped (GQA) or one per query head (MHA)."""

    MLA = "MLA"
    GQA = "GQA"
    MHA = "MHA"


@dataclass(frozen=True, kw_only=True)
class Mla:
    """Widths of multi-head latent attention; ``q_lora_rank`` is ``None`` for an uncompressed query."""

    q_lora_rank: int | None
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int


@dataclass(frozen=True, kw_only=True)
class Experts:
    """The routed and shared experts, and the layers that have them. Widths are in elements."""

    count: int
    per_token: int
    width: int
    shared_count: int
    shared_width: int
    layer_ids: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Quantization:
    """How weights are packed. ``block`` is (rows, columns) of block-wise scales; ``targets_experts_only`` means
    that the file's ignore list leaves attention, dense and shared MLPs in full precision."""

    method: str
    format: str | None = None
    bits: int | None = None
    group_size: int | None = None
    block: tuple[int, int] | None = None
    ignore: tuple[str, ...] = ()
    kv_cache_bits: int | None = None

    @property
    def keeps_attention(self) -> bool:
        """Whether the ignore list leaves attention in full precision."""
        return any("attn" in pattern or "attention" in pattern for pattern in self.ignore)


@dataclass(frozen=True, kw_only=True)
class Vision:
    """The vision tower, where the file describes one; a width that it does not state is ``None``."""

    layers: int | None
    hidden_size: int | None
    heads: int | None
    intermediate_size: int | None


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """The shape of a target model. ``context_length`` is what SGLang derives (rope factor included).

    ``kv_layer_ids`` are the layers that keep keys and values for the whole context; ``irregular_kv`` says why
    the KV pool is not simply tokens x layers (sliding or linear attention), else ``None``.
    """

    architecture: str
    model_type: str | None
    hidden_size: int
    layers: int
    intermediate_size: int
    vocab_size: int
    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    attention: Attention
    mla: Mla | None
    experts: Experts | None
    quantization: Quantization | None
    vision: Vision | None
    context_length: int | None
    dtype: str | None
    tied_embeddings: bool
    attention_bias: bool
    qk_norm: bool
    mtp_layers: int
    custom_code: bool
    index_head_dim: int | None
    kv_layer_ids: tuple[int, ...]
    irregular_kv: str | None

    @property
    def dense_layers(self) -> int:
        """Layers without routed experts."""
        return self.layers - (len(self.experts.layer_ids) if self.experts else 0)

    @property
    def moe_layers(self) -> int:
        """Layers with routed experts."""
        return self.layers - self.dense_layers


def read_model_facts(text: str, *, source: str = "config.json") -> ModelFacts:
    """The facts of a target model. Raises KitError ``model-config`` with the path of what is missing or wrong."""
    root = read_config(text, source=source)
    part = text_section(root)
    heads = part.positive("num_attention_heads")
    kv_heads = part.whole_or_none("num_key_value_heads") or heads
    head_dim = part.whole_or_none("head_dim") or part.positive("hidden_size") // heads
    mla = _read_mla(part)
    layers = part.positive("num_hidden_layers")
    kv_layer_ids, irregular = _kv_layers(part, layers)
    return ModelFacts(
        architecture=_architecture(root),
        model_type=root.text_or_none("model_type"),
        hidden_size=part.positive("hidden_size"),
        layers=layers,
        intermediate_size=_dense_width(part),
        vocab_size=part.positive("vocab_size"),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=mla.qk_nope_head_dim + mla.qk_rope_head_dim if mla else head_dim,
        v_head_dim=mla.v_head_dim if mla else part.whole_or_none("v_head_dim") or head_dim,
        attention=_attention(mla, heads, kv_heads),
        mla=mla,
        experts=_read_experts(part, layers),
        quantization=read_quantization(root, part),
        vision=_read_vision(root),
        context_length=context_length_of(part),
        dtype=_dtype(root, part),
        tied_embeddings=part.flag(
            "tie_word_embeddings", default=root.flag("tie_word_embeddings", default=False)
        ),
        attention_bias=_attention_bias(part),
        qk_norm=(part.text_or_none("model_type") or "").startswith("qwen3")
        or part.flag("use_qk_norm", default=False),
        mtp_layers=part.whole_or_none("num_nextn_predict_layers") or 0,
        custom_code=root.section_or_none("auto_map") is not None,
        index_head_dim=part.whole_or_none("index_head_dim"),
        kv_layer_ids=kv_layer_ids,
        irregular_kv=irregular,
    )


def text_section(root: Section) -> Section:
    """The text part of a multimodal config, or the root."""
    name = root.first(*TEXT_SECTIONS)
    found = root.section_or_none(name) if name else None
    if found is None:
        return root
    return found.section_or_none("text_config") or found


def context_length_of(part: Section) -> int | None:
    """The context as SGLang derives it: a rope factor counts unless the original length is given beside it."""
    name = part.first(*CONTEXT_NAMES)
    if name is None:
        return None
    rope = part.section_or_none("rope_scaling")
    factor = rope.number_or_none("factor") if rope else None
    if rope and (rope.first("original_max_position_embeddings") or rope.values.get("rope_type") == "llama3"):
        factor = None
    return int((factor or 1) * part.whole(name))


def _architecture(root: Section) -> str:
    names = root.texts("architectures")
    if not names:
        raise root.wrong("architectures", "missing; SGLang chooses the model's code by it")
    return names[0]


def _attention(mla: Mla | None, heads: int, kv_heads: int) -> Attention:
    if mla:
        return Attention.MLA
    return Attention.GQA if kv_heads < heads else Attention.MHA


def _attention_bias(part: Section) -> bool:
    """Qwen2 has biases on q, k and v without saying so (SGLang 0.5.16, models/qwen2.py)."""
    default = (part.text_or_none("model_type") or "").startswith("qwen2")
    return part.flag("attention_bias", default=part.flag("qkv_bias", default=default))


def _dense_width(part: Section) -> int:
    width = part.whole_or_none("intermediate_size")
    return width if width is not None else part.whole("moe_intermediate_size")


def _dtype(root: Section, part: Section) -> str | None:
    for section in (part, root):
        name = section.first("dtype", "torch_dtype")
        if name:
            return section.text_or_none(name)
    return None


def _read_mla(part: Section) -> Mla | None:
    rank = part.whole_or_none("kv_lora_rank")
    if rank is None:
        return None
    return Mla(
        q_lora_rank=part.whole_or_none("q_lora_rank"),
        kv_lora_rank=rank,
        qk_nope_head_dim=part.whole("qk_nope_head_dim"),
        qk_rope_head_dim=part.whole("qk_rope_head_dim"),
        v_head_dim=part.whole("v_head_dim"),
    )


def _read_experts(part: Section, layers: int) -> Experts | None:
    name = part.first(*EXPERT_COUNT_NAMES)
    if name is None or part.whole(name) == 0:
        return None
    width = part.whole_or_none("moe_intermediate_size") or part.whole("intermediate_size")
    shared = part.whole_or_none("n_shared_experts") or 0
    shared_name = part.first(*SHARED_WIDTH_NAMES)
    shared_width = part.whole(shared_name) if shared_name else width * shared
    return Experts(
        count=part.whole(name),
        per_token=part.whole_or_none("num_experts_per_tok") or part.whole("num_experts_per_token"),
        width=width,
        shared_count=shared or (1 if shared_width else 0),
        shared_width=shared_width,
        layer_ids=_moe_layer_ids(part, layers),
    )


def _moe_layer_ids(part: Section, layers: int) -> tuple[int, ...]:
    first = part.whole_or_none("first_k_dense_replace") or 0
    if isinstance(part.values.get("moe_layer_freq"), list):
        marks = part.wholes_or_none("moe_layer_freq") or ()
        return tuple(i for i, mark in enumerate(marks[:layers]) if mark)
    every = part.whole_or_none("moe_layer_freq") or 1
    step = part.whole_or_none("decoder_sparse_step") or 1
    dense = part.wholes_or_none("mlp_only_layers") or ()
    return tuple(i for i in range(first, layers) if i % every == 0 and (i + 1) % step == 0 and i not in dense)


def read_quantization(root: Section, part: Section) -> Quantization | None:
    """How the weights are packed, ``None`` when the file has no quantization_config."""
    found = root.section_or_none("quantization_config") or part.section_or_none("quantization_config")
    if found is None:
        return None
    weights = _first_group(found)
    block = found.wholes_or_none("weight_block_size") or (
        weights and weights.wholes_or_none("block_structure")
    )
    return Quantization(
        method=found.text_or_none("quant_method") or "unknown",
        format=found.text_or_none("format") or found.text_or_none("quant_algo"),
        bits=(weights.whole_or_none("num_bits") if weights else None) or found.whole_or_none("bits"),
        group_size=(weights.whole_or_none("group_size") if weights else None)
        or found.whole_or_none("group_size"),
        block=(block[0], block[1]) if block and len(block) == 2 else None,
        ignore=found.texts("ignore")
        or found.texts("modules_to_not_convert")
        or found.texts("exclude_modules"),
        kv_cache_bits=_kv_bits(found),
    )


def _first_group(found: Section) -> Section | None:
    groups = found.section_or_none("config_groups")
    name = next(iter(groups.values), None) if groups else None
    group = groups.section_or_none(name) if groups and name else None
    return group.section_or_none("weights") if group else None


def _kv_bits(found: Section) -> int | None:
    scheme = found.section_or_none("kv_cache_scheme")
    if scheme:
        return scheme.whole_or_none("num_bits")
    algorithm = found.text_or_none("kv_cache_quant_algo")
    return 8 if algorithm and "FP8" in algorithm.upper() else None


def _read_vision(root: Section) -> Vision | None:
    found = root.section_or_none("vision_config") or root.section_or_none("vit_config")
    if found is None:
        return None

    def number(*names: str) -> int | None:
        name = found.first(*names)
        return found.whole_or_none(name) if name else None

    return Vision(
        layers=number("vt_num_hidden_layers", "num_hidden_layers", "depth"),
        hidden_size=number("vt_hidden_size", "hidden_size", "embed_dim"),
        heads=number("vt_num_attention_heads", "num_attention_heads", "num_heads"),
        intermediate_size=number("vt_intermediate_size", "intermediate_size"),
    )


def _kv_layers(part: Section, layers: int) -> tuple[tuple[int, ...], str | None]:
    """Layers with keys and values for the whole context, and why the pool is irregular, if it is."""
    kinds = part.texts("layer_types")
    if any("linear" in kind or "mamba" in kind for kind in kinds):
        full = tuple(i for i, kind in enumerate(kinds[:layers]) if "full" in kind or kind == "attention")
        return full, "linear-attention layers keep a state beside the KV pool"
    if any("sliding" in kind for kind in kinds) and part.whole_or_none("sliding_window"):
        return tuple(range(layers)), "sliding-window layers have a pool of their own"
    return tuple(range(layers)), None
