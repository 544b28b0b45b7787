"""Weights by tensor name and weights computed from config.json agree with the parameters of real runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from kitctl.kit.drafter_facts import read_drafter_facts
from kitctl.kit.model_facts import ModelFacts, Quantization, read_model_facts
from kitctl.kit.tensor_index import Role, Tensor, Weights, read_role_patterns, sum_weights, tensors_of_header
from kitctl.plan.memory_data import read_memory_data
from kitctl.plan.weights import (
    Layout,
    computed_drafter_weights,
    computed_weights,
    is_ignored,
    share_bytes,
    stage_bytes,
    stage_layers,
)

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "tests" / "cases" / "models"
DATA = read_memory_data((ROOT / "kitctl" / "data" / "engine_memory.toml").read_text())
PATTERNS = read_role_patterns((ROOT / "kitctl" / "data" / "tensor_roles.toml").read_text())


def tensors(name: str) -> list[Tensor]:
    lines = (MODELS / name / "tensors.tsv").read_text().splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return [Tensor(name=row[0], count=int(row[1]), size_bytes=int(row[4])) for row in rows]


def facts(name: str) -> ModelFacts:
    return read_model_facts((MODELS / name / "config.json").read_text())


def layout(kv_heads: int, vocab: int, layers: int, *, tp: int, ep: int = 1, pp: int = 1) -> Layout:
    return Layout(
        tp=tp,
        ep=ep,
        pp=pp,
        attention_tp=tp,
        kv_heads=kv_heads,
        vocab_size=vocab,
        vocab_padding=64,
        layers=layers,
    )


PUBLIC: list[dict[str, Any]] = json.loads((MODELS / "public-shapes.json").read_text())
SMALL = facts("kimi-small")
BY_NAME = sum_weights(tensors("kimi-small"), patterns=PATTERNS, layers=SMALL.layers, source="index")
BY_RULE = computed_weights(SMALL, data=DATA)


@pytest.mark.parametrize("weights", [BY_NAME, BY_RULE], ids=["by name", "by rule"])
@pytest.mark.parametrize(
    ("tp", "ep", "total", "experts"),
    [(1, 1, 5830268352, 3567264768), (2, 1, 2995564288, 1783636992), (2, 2, 2995559680, 1783632384)],
)
def test_each_gpu_holds_what_was_measured_on_h200(
    weights: Weights, tp: int, ep: int, total: int, experts: int
) -> None:
    (parts,) = stage_bytes(weights, layout(64, SMALL.vocab_size, SMALL.layers, tp=tp, ep=ep))
    assert sum(parts.values()) == total
    assert parts[Role.EXPERT] + parts[Role.EXPERT_SHAPE] == experts


@pytest.mark.parametrize(("tp", "measured"), [(1, 2422297600), (2, 1365332992)])
def test_the_drafter_too(tp: int, measured: int) -> None:
    drafter = read_drafter_facts((MODELS / "kimi-small-dflash" / "config.json").read_text())
    by_name = sum_weights(tensors("kimi-small-dflash"), patterns=PATTERNS, layers=2, source="index")
    by_rule = computed_drafter_weights(drafter, captured=3)
    for weights in (by_name, by_rule):
        assert sum(stage_bytes(weights, layout(8, 20480, 2, tp=tp))[0].values()) == measured


def test_k26_comes_to_its_published_size() -> None:
    assert computed_weights(facts("kimi-k2.6"), data=DATA).size_bytes / 1024**3 == pytest.approx(
        554.3, abs=0.1
    )


def test_its_drafter_too() -> None:
    drafter = read_drafter_facts((MODELS / "kimi-k2.6-dflash" / "config.json").read_text())
    size = computed_drafter_weights(drafter, captured=6).size_bytes
    assert size / 1024**3 == pytest.approx(6.48, abs=0.005)


@pytest.mark.parametrize("shape", PUBLIC, ids=lambda shape: shape["name"])
def test_public_shapes_come_to_their_published_parameters(shape: dict[str, Any]) -> None:
    weights = computed_weights(read_model_facts(json.dumps(shape["config"])), data=DATA)
    assert weights.size_bytes / 2 / 1e9 == pytest.approx(shape["published_billion_parameters"], rel=0.001)


def test_the_last_stages_take_the_remaining_layers() -> None:
    assert [len(stage) for stage in stage_layers(61, 8)] == [7, 7, 7, 8, 8, 8, 8, 8]
    assert stage_layers(61, 1) == (range(61),)


def test_few_key_value_heads_are_repeated_not_split() -> None:
    assert share_bytes(Role.KV, 800, layout(4, 4096, 12, tp=2)) == 400
    assert share_bytes(Role.KV, 800, layout(4, 4096, 12, tp=8)) == 200


def test_a_vocabulary_is_padded_before_it_is_split() -> None:
    assert share_bytes(Role.VOCAB_IN, 100 * 10, layout(4, 100, 12, tp=2)) == 640


def test_next_token_heads_behind_the_last_layer_are_not_loaded() -> None:
    found = sum_weights(
        [Tensor(name="model.layers.2.mlp.up_proj.weight", size_bytes=8)],
        patterns=PATTERNS,
        layers=2,
        source="",
    )
    assert [part.role for part in found.sums] == [Role.DROPPED]


def test_a_safetensors_header_names_its_tensors() -> None:
    header = {
        "__metadata__": {"format": "pt"},
        "lm_head.weight": {"dtype": "BF16", "shape": [4, 2], "data_offsets": [16, 32]},
    }
    assert tensors_of_header(header) == [Tensor(name="lm_head.weight", size_bytes=16)]


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("model.layers.3.self_attn.k_proj.weight", Role.KV),
        ("model.layers.3.self_attn.k_norm.weight", Role.REPLICATED),
        ("model.layers.3.self_attn.q_a_proj.weight", Role.REPLICATED),
        ("model.layers.3.self_attn.q_b_proj.weight", Role.ATTENTION),
        ("model.layers.3.self_attn.kv_b_proj.weight", Role.KV_B),
        ("model.layers.3.mlp.experts.17.down_proj.weight_scale_inv", Role.EXPERT),
        ("model.layers.3.mlp.experts.17.down_proj.weight_shape", Role.EXPERT_SHAPE),
        ("model.layers.3.mlp.shared_experts.down_proj.weight", Role.SPLIT),
        ("model.layers.3.mlp.shared_expert_gate.weight", Role.REPLICATED),
        ("model.layers.3.mlp.gate.weight", Role.REPLICATED),
        ("model.layers.3.mlp.gate_proj.weight", Role.SPLIT),
        ("visual.blocks.0.attn.qkv.weight", Role.VISION_SPLIT),
        ("visual.blocks.0.norm1.weight", Role.VISION),
        ("model.layers.0.self_attn.rotary_emb.inv_freq", Role.DROPPED),
    ],
)
def test_a_role_is_told_by_the_name(name: str, role: Role) -> None:
    assert PATTERNS.role_of(name) is role


def test_ignored_modules_stay_in_full_precision() -> None:
    quant = Quantization(method="x", ignore=("lm_head", "re:.*self_attn.*", "model.layers.0.mlp"))
    assert is_ignored(quant, "model.layers.1.self_attn.q_proj")
    assert is_ignored(quant, "model.layers.0.mlp.gate_proj")
    assert not is_ignored(quant, "model.layers.1.mlp.experts.1.gate_proj")


def test_block_wise_fp8_takes_a_byte_a_weight_and_its_scales() -> None:
    text = (MODELS / "qwen3-tiny-moe" / "config.json").read_text()
    fp8 = '"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}, "rope_scaling": null'
    plain = computed_weights(read_model_facts(text), data=DATA)
    packed = computed_weights(read_model_facts(text.replace('"rope_scaling": null', fp8)), data=DATA)

    def experts(weights: Weights) -> int:
        return sum(part.size_bytes for part in weights.sums if part.role is Role.EXPERT)

    assert experts(packed) == experts(plain) // 2 + 4 * experts(plain) // 2 // 128**2
