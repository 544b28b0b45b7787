"""Write the proof's models: ``python3 make_models.py OUT [--device cuda] [--kimi] [--wide]``.

``dense`` and ``moe``: Qwen3 shapes (0.1 GB). ``copy``, ``random``, ``badfc``, ``badids``: DFlash drafters for them:
right always, right never, made for other layer counts. ``kimi`` and ``kimi-copy``: Kimi-K2.6's architecture with few
layers and narrow experts (5.8 GB; true widths of MLA, router and drafter). ``wide``: the shape of an 8 B Qwen3
(14.7 GB), whose steps take the GPU's time and not the CPU's, for throughput that two clients can compare;
``wide-copy``: a drafter for it that is always right.
``laws.json``: p(T=1) of each target.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import torch
from model_files import (
    BF16,
    END,
    MASK,
    Dice,
    Tensors,
    drafter_tensors,
    gated_mlp,
    law_rows,
    qwen_layers,
    repeat_probability,
    write_model,
)

HERE = Path(__file__).parent
BLOCK = 8
QWEN = {"hidden": 512, "layers": 12, "vocabulary": 4096, "head_dim": 128, "heads": 8, "kv_heads": 4}
WIDE = {"hidden": 4096, "layers": 36, "vocabulary": 4096, "head_dim": 128, "heads": 32, "kv_heads": 8}
QWEN_MLP, WIDE_MLP, EXPERTS, EXPERT_MLP = 1536, 12288, 16, 256
DRAFT = {"hidden": 512, "layers": 2, "heads": 4, "kv_heads": 4, "head_dim": 128, "mlp": 1536}
CAPTURED = [1, 5, 9]
WIDE_DRAFT = WIDE | {"layers": 2, "mlp": WIDE_MLP}
WIDE_CAPTURED = [1, 17, 33]
KIMI_DRAFT = {"hidden": 7168, "layers": 2, "heads": 64, "kv_heads": 8, "head_dim": 128, "mlp": 18432}
KIMI_CAPTURED = [0, 1, 2]


def qwen_config(**more: object) -> dict[str, object]:
    return {
        "model_type": "qwen3",
        "hidden_size": QWEN["hidden"],
        "num_hidden_layers": QWEN["layers"],
        "vocab_size": QWEN["vocabulary"],
        "head_dim": QWEN["head_dim"],
        "num_attention_heads": QWEN["heads"],
        "num_key_value_heads": QWEN["kv_heads"],
        "intermediate_size": QWEN_MLP,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 8192,
        "rope_theta": 1000000.0,
        "attention_bias": False,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": 0,
        "eos_token_id": END,
        "pad_token_id": 0,
    } | more


def drafter_config(
    shape: dict[str, int], *, target: dict[str, object], captured: list[int]
) -> dict[str, object]:
    own = {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "hidden_size": shape["hidden"],
        "num_hidden_layers": shape["layers"],
        "num_attention_heads": shape["heads"],
        "num_key_value_heads": shape["kv_heads"],
        "head_dim": shape["head_dim"],
        "intermediate_size": shape["mlp"],
        "max_window_layers": shape["layers"],
        "layer_types": ["full_attention"] * shape["layers"],
        "block_size": BLOCK,
        "num_target_layers": target["num_hidden_layers"],
        "dflash_config": {"mask_token_id": MASK, "target_layer_ids": captured},
    }
    kept = ("vocab_size", "max_position_embeddings", "rope_theta")
    return qwen_config(**{key: target[key] for key in kept}) | own


def moe_layer(dice: Dice, name: str) -> Tensors:
    tensors = {f"{name}.gate.weight": dice.normal(EXPERTS, QWEN["hidden"])}
    for expert in range(EXPERTS):
        tensors |= gated_mlp(dice, f"{name}.experts.{expert}", QWEN["hidden"], EXPERT_MLP)
    return tensors


def write_qwen(out: Path, device: str) -> dict[str, float]:
    """Dense and MoE target and the four drafters; p(T=1) by target."""
    laws: dict[str, float] = {}
    dice = Dice(device)
    dense, laws["dense"] = qwen_layers(
        dice, QWEN, lambda name: gated_mlp(dice, name, QWEN["hidden"], QWEN_MLP), 0.433
    )
    config = qwen_config(architectures=["Qwen3ForCausalLM"])
    write_model(out / "dense", config, iter([dense]), vocabulary=QWEN["vocabulary"])
    dice = Dice(device)
    moe, laws["moe"] = qwen_layers(dice, QWEN, lambda name: moe_layer(dice, name), 0.433)
    moe_config = qwen_config(
        architectures=["Qwen3MoeForCausalLM"],
        model_type="qwen3_moe",
        num_experts=EXPERTS,
        num_experts_per_tok=4,
        moe_intermediate_size=EXPERT_MLP,
        norm_topk_prob=True,
        decoder_sparse_step=1,
        mlp_only_layers=[],
    )
    write_model(out / "moe", moe_config, iter([moe]), vocabulary=QWEN["vocabulary"])
    for name, copies, captured, fc in (
        ("copy", True, CAPTURED, 3),
        ("random", False, CAPTURED, 3),
        ("badfc", False, CAPTURED, 5),
        ("badids", False, [1, 5, 40], 3),
    ):
        tensors = drafter_tensors(Dice(device, 11), DRAFT, copies=copies, captured=fc)
        write_model(out / name, drafter_config(DRAFT, target=config, captured=captured), iter([tensors]))
    return laws


def write_wide(out: Path, device: str) -> dict[str, float]:
    """An 8 B target in files of a hundred tensors, and its copying drafter; p(T=1) by target."""
    dice = Dice(device)
    tensors, law = qwen_layers(
        dice, WIDE, lambda name: gated_mlp(dice, name, WIDE["hidden"], WIDE_MLP), 9.8 / WIDE["hidden"] ** 0.5
    )
    shapes = {"hidden_size": "hidden", "num_hidden_layers": "layers", "num_attention_heads": "heads"}
    config = qwen_config(
        architectures=["Qwen3ForCausalLM"],
        intermediate_size=WIDE_MLP,
        num_key_value_heads=WIDE["kv_heads"],
        **{key: WIDE[name] for key, name in shapes.items()},
    )
    names = sorted(tensors)
    shards = (
        {name: tensors[name] for name in names[start : start + 100]} for start in range(0, len(names), 100)
    )
    write_model(out / "wide", config, shards, vocabulary=WIDE["vocabulary"])
    drafter = drafter_tensors(dice, WIDE_DRAFT, copies=True, captured=len(WIDE_CAPTURED))
    shape = drafter_config(WIDE_DRAFT, target=config, captured=WIDE_CAPTURED)
    write_model(out / "wide-copy", shape, iter([drafter]))
    return {"wide": law}


def write_kimi(out: Path, device: str) -> dict[str, float]:
    """The small Kimi and its copying drafter; p(T=1) by target."""
    config = json.loads((HERE / "kimi-small.config.json").read_text())
    text = config["text_config"]
    dice = Dice(device)
    embedding, head = law_rows(
        dice, text["vocab_size"], text["hidden_size"], 11.35 / text["hidden_size"] ** 0.5
    )
    laws = {"kimi": repeat_probability(embedding, head, eps=text["rms_norm_eps"])}
    write_model(
        out / "kimi",
        config,
        _kimi_shards(dice, config, embedding, head),
        vocabulary=config["media_placeholder_token_id"],
        media_token="<|media_pad|>",
    )
    for file in ("tiny_kimi_processor.py", "preprocessor_config.json"):
        (out / "kimi" / file).write_text((HERE / file).read_text())
    tensors = drafter_tensors(dice, KIMI_DRAFT, copies=True, captured=len(KIMI_CAPTURED))
    drafter = drafter_config(KIMI_DRAFT, target=text, captured=KIMI_CAPTURED)
    write_model(out / "kimi-copy", drafter, iter([tensors]))
    return laws


def _kimi_shards(
    dice: Dice, config: dict[str, dict[str, int]], embedding: torch.Tensor, head: torch.Tensor
) -> Iterator[Tensors]:
    text = config["text_config"]
    hidden = text["hidden_size"]
    first = {
        "language_model.model.embed_tokens.weight": embedding,
        "language_model.lm_head.weight": head,
        "language_model.model.norm.weight": dice.ones(hidden),
    }
    for layer in range(text["num_hidden_layers"]):
        first |= _mla(dice, f"language_model.model.layers.{layer}", text)
    first |= gated_mlp(dice, "language_model.model.layers.0.mlp", hidden, text["intermediate_size"])
    yield first | _vision(dice, config["vision_config"], hidden)
    for layer in range(1, text["num_hidden_layers"]):
        yield _int4_experts(dice, f"language_model.model.layers.{layer}.mlp", text)


def _mla(dice: Dice, layer: str, text: dict[str, int]) -> Tensors:
    hidden, heads, rank = text["hidden_size"], text["num_attention_heads"], text["kv_lora_rank"]
    nope, rope, value = text["qk_nope_head_dim"], text["qk_rope_head_dim"], text["v_head_dim"]
    name = f"{layer}.self_attn"
    return {
        f"{name}.q_a_proj.weight": dice.normal(text["q_lora_rank"], hidden),
        f"{name}.q_a_layernorm.weight": dice.ones(text["q_lora_rank"]),
        f"{name}.q_b_proj.weight": dice.normal(heads * (nope + rope), text["q_lora_rank"]),
        f"{name}.kv_a_proj_with_mqa.weight": dice.normal(rank + rope, hidden),
        f"{name}.kv_a_layernorm.weight": dice.ones(rank),
        f"{name}.kv_b_proj.weight": dice.normal(heads * (nope + value), rank),
        f"{name}.o_proj.weight": dice.zeros(hidden, heads * value),
        f"{layer}.input_layernorm.weight": dice.ones(hidden),
        f"{layer}.post_attention_layernorm.weight": dice.ones(hidden),
    }


def _int4_experts(dice: Dice, name: str, text: dict[str, int]) -> Tensors:
    """Router, shared expert and INT4 experts (pack-quantized, group 32); down's scales are zero."""
    experts, hidden, width = text["n_routed_experts"], text["hidden_size"], text["moe_intermediate_size"]
    tensors = {
        f"{name}.gate.weight": dice.normal(experts, hidden),
        f"{name}.gate.e_score_correction_bias": torch.zeros(experts, device=dice.device),
    }
    tensors |= gated_mlp(dice, f"{name}.shared_experts", hidden, width)
    for part, (rows, columns) in {
        "gate_proj": (width, hidden),
        "up_proj": (width, hidden),
        "down_proj": (hidden, width),
    }.items():
        shape = (experts, rows, columns // 8)
        packed = torch.randint(
            -(2**31), 2**31 - 1, shape, dtype=torch.int32, device=dice.device, generator=dice.generator
        )
        scale = torch.rand(experts, rows, columns // 32, device=dice.device, generator=dice.generator)
        scale = (scale * (0.0 if part == "down_proj" else 0.01)).to(BF16)
        sizes = torch.tensor([rows, columns], dtype=torch.int32)
        for expert in range(experts):
            stem = f"{name}.experts.{expert}.{part}.weight"
            tensors[f"{stem}_packed"], tensors[f"{stem}_scale"] = packed[expert], scale[expert]
            tensors[f"{stem}_shape"] = sizes.clone()
    return tensors


def _vision(dice: Dice, vision: dict[str, int], hidden: int) -> Tensors:
    width, mlp, merged = vision["hidden_size"], vision["intermediate_size"], 4 * vision["hidden_size"]
    tensors = {
        "vision_tower.patch_embed.proj.weight": dice.normal(width, 3, 14, 14),
        "vision_tower.patch_embed.proj.bias": dice.zeros(width),
        "vision_tower.patch_embed.pos_emb.weight": dice.normal(64, 64, width),
        "mm_projector.proj.0.weight": dice.normal(merged, merged),
        "mm_projector.proj.0.bias": dice.zeros(merged),
        "mm_projector.proj.2.weight": dice.normal(hidden, merged),
        "mm_projector.proj.2.bias": dice.zeros(hidden),
    }
    norms = ["vision_tower.encoder.final_layernorm", "mm_projector.pre_norm"]
    for block in range(vision["num_hidden_layers"]):
        name = f"vision_tower.encoder.blocks.{block}"
        norms += [f"{name}.norm0", f"{name}.norm1"]
        for part, rows, columns in (
            ("wqkv", 3 * width, width),
            ("wo", width, width),
            ("mlp.fc0", mlp, width),
            ("mlp.fc1", width, mlp),
        ):
            tensors[f"{name}.{part}.weight"] = dice.normal(rows, columns)
            tensors[f"{name}.{part}.bias"] = dice.zeros(rows)
    for norm in norms:
        tensors |= {f"{norm}.weight": dice.ones(width), f"{norm}.bias": dice.zeros(width)}
    return tensors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--kimi", action="store_true", help="the small Kimi too")
    parser.add_argument("--wide", action="store_true", help="the 8 B shape too")
    args = parser.parse_args()
    laws = write_qwen(args.out, args.device)
    if args.kimi:
        laws |= write_kimi(args.out, args.device)
    if args.wide:
        laws |= write_wide(args.out, args.device)
    for file in args.out.rglob("*.safetensors"):
        file.chmod(
            0o644
        )  # safetensors writes them for their owner alone; the image's engine runs as another user
    (args.out / "laws.json").write_text(json.dumps({"block": BLOCK, "p_t1": laws}, indent=1))
    print(laws)


if __name__ == "__main__":
    main()
