import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitctl.errors import Exit, KitError
from kitctl.kit.drafter_facts import DrafterKind, read_drafter_facts
from kitctl.kit.model_facts import Attention, Experts, Mla, Quantization, Vision, read_model_facts

MODELS = Path(__file__).parents[1] / "cases" / "models"


def config(name: str) -> str:
    return (MODELS / name / "config.json").read_text()


def test_kimi_k26_is_read_from_its_nested_text_config() -> None:
    facts = read_model_facts(config("kimi-k2.6"))
    assert (facts.architecture, facts.layers, facts.dense_layers, facts.moe_layers) == (
        "KimiK25ForConditionalGeneration",
        61,
        1,
        60,
    )
    assert (facts.heads, facts.kv_heads, facts.vocab_size, facts.context_length) == (64, 64, 163840, 262144)
    assert facts.attention is Attention.MLA
    assert facts.mla == Mla(
        q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128
    )
    assert facts.experts == Experts(
        count=384,
        per_token=8,
        width=2048,
        shared_count=1,
        shared_width=2048,
        layer_ids=tuple(range(1, 61)),
    )
    assert facts.quantization == Quantization(
        method="compressed-tensors",
        format="pack-quantized",
        bits=4,
        group_size=32,
        ignore=(
            "lm_head",
            "re:.*self_attn.*",
            "re:.*shared_experts.*",
            "re:.*mlp\\.(gate|up|gate_up|down)_proj.*",
        ),
    )
    assert (facts.vision, facts.dtype, facts.irregular_kv) == (None, None, None)


def test_kimi_small_has_a_vision_part() -> None:
    facts = read_model_facts(config("kimi-small"))
    assert facts.vision == Vision(layers=2, hidden_size=288, heads=4, intermediate_size=512)
    assert facts.dtype == "bfloat16"


def test_qwen3_moe_puts_experts_in_every_layer() -> None:
    facts = read_model_facts(config("qwen3-tiny-moe"))
    assert (facts.attention, facts.kv_heads, facts.head_dim) == (Attention.GQA, 4, 128)
    assert facts.experts == Experts(
        count=16, per_token=4, width=256, shared_count=0, shared_width=0, layer_ids=tuple(range(12))
    )
    assert facts.qk_norm


def test_qwen3_dense_has_none() -> None:
    facts = read_model_facts(config("qwen3-tiny"))
    assert (facts.experts, facts.quantization, facts.dense_layers) == (None, None, 12)


def test_sparse_step_and_dense_list_choose_the_expert_layers() -> None:
    text = config("qwen3-tiny-moe").replace('"decoder_sparse_step": 1', '"decoder_sparse_step": 2')
    facts = read_model_facts(text.replace('"mlp_only_layers": []', '"mlp_only_layers": [3]'))
    assert facts.experts is not None
    assert facts.experts.layer_ids == (1, 5, 7, 9, 11)


@pytest.mark.parametrize(
    ("rope", "expected"),
    [
        ('{"rope_type": "linear", "factor": 4.0}', 32768),
        ('{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}', 8192),
        ('{"rope_type": "llama3", "factor": 8.0}', 8192),
    ],
)
def test_the_rope_factor_counts_only_without_the_original_length(rope: str, expected: int) -> None:
    text = config("qwen3-tiny").replace('"rope_scaling": null', f'"rope_scaling": {rope}')
    assert read_model_facts(text).context_length == expected


def test_block_wise_fp8_is_read() -> None:
    fp8 = '"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}, "rope_scaling": null'
    facts = read_model_facts(config("qwen3-tiny-moe").replace('"rope_scaling": null', fp8))
    assert facts.quantization == Quantization(method="fp8", block=(128, 128))


def test_linear_attention_layers_keep_no_keys() -> None:
    kinds = '"layer_types": ["linear_attention", "full_attention"], "rope_scaling": null'
    facts = read_model_facts(config("qwen3-tiny").replace('"rope_scaling": null', kinds))
    assert facts.kv_layer_ids == (1,)
    assert facts.irregular_kv == "linear-attention layers keep a state beside the KV pool"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ('{"architectures": ["X"]}', "config.json: num_attention_heads: missing; a whole number is needed"),
        (
            '{"architectures": ["X"], "text_config": {"num_attention_heads": "8"}}',
            "config.json: text_config.num_attention_heads: '8' is no whole number",
        ),
        ("[]", "config.json: $: the file holds no object"),
        (
            "version https://git-lfs.github.com/spec/v1",
            "config.json is no JSON: Expecting value: line 1 column 1 (char 0)",
        ),
    ],
)
def test_a_wrong_file_is_named_with_the_path(text: str, cause: str) -> None:
    with pytest.raises(KitError) as refused:
        read_model_facts(text)
    assert (refused.value.code, refused.value.exit_code) == ("model-config", Exit.USAGE)
    assert refused.value.cause == cause


def test_a_list_marks_the_expert_layers() -> None:
    text = config("qwen3-tiny-moe").replace('"decoder_sparse_step": 1', '"moe_layer_freq": [0, 1, 1]')
    facts = read_model_facts(text)
    assert facts.experts is not None
    assert facts.experts.layer_ids == (1, 2)


ODD = st.one_of(
    st.none(), st.integers(-2, 4), st.text(max_size=3), st.lists(st.integers(-1, 3), max_size=3), st.just({})
)


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(["kimi-k2.6", "kimi-small", "qwen3-tiny-moe", "qwen3-tiny-dflash"]), data=st.data()
)
def test_any_one_odd_value_is_read_or_named_with_its_path(name: str, data: st.DataObject) -> None:
    tree = json.loads(config(name))
    place = tree
    while True:
        key = data.draw(st.sampled_from(sorted(place)))
        if not isinstance(place[key], dict) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(ODD)
    for read in (read_model_facts, read_drafter_facts):
        try:
            read(json.dumps(tree))
        except KitError as refused:
            assert refused.code == "model-config"


def test_the_k26_drafter() -> None:
    facts = read_drafter_facts(config("kimi-k2.6-dflash"))
    assert (facts.kind, facts.layers, facts.block_size, facts.mask_token_id) == (
        DrafterKind.DFLASH,
        6,
        8,
        163838,
    )
    assert facts.target_layer_ids == (1, 12, 24, 35, 47, 58)
    assert (facts.hidden_size, facts.kv_heads, facts.num_target_layers) == (7168, 8, 61)
    assert not facts.mask_at_top_level


def test_without_stated_layers_the_engines_own_spacing_is_taken() -> None:
    stated = '"target_layer_ids": [\n   1,\n   12,\n   24,\n   35,\n   47,\n   58\n  ]'
    text = config("kimi-k2.6-dflash")
    assert stated in text
    facts = read_drafter_facts(text.replace(stated, '"target_layer_ids": null'))
    assert facts.captured_layers(61) == (1, 12, 24, 35, 47, 58)


@pytest.mark.parametrize(
    ("architecture", "extra", "kind"),
    [
        ("LlamaForCausalLMEagle3", "", DrafterKind.EAGLE3),
        ("LlamaForCausalLMEagle", "", DrafterKind.EAGLE),
        ("Qwen3ForCausalLM", "", DrafterKind.STANDALONE),
        (
            "DFlashDraftModel",
            '"dflash_config": {"conv_kernel_size": 4, "conv_group_size": 8},',
            DrafterKind.DFLASH2,
        ),
    ],
)
def test_the_kind_is_told_by_architecture_and_dflash_config(
    architecture: str, extra: str, kind: DrafterKind
) -> None:
    text = f"""{{"architectures": ["{architecture}"], {extra} "hidden_size": 512, "num_hidden_layers": 1,
        "num_attention_heads": 8, "intermediate_size": 1024}}"""
    assert read_drafter_facts(text).kind is kind


def test_a_mask_token_at_the_top_level_is_seen_as_such() -> None:
    text = config("qwen3-tiny-dflash").replace('"mask_token_id": 3, ', "").replace('"mask_token_id": 3,', "")
    facts = read_drafter_facts(text.replace('"block_size": 8', '"block_size": 8, "mask_token_id": 3'))
    assert (facts.mask_token_id, facts.mask_at_top_level) == (3, True)
