"""Made-up checkpoints whose acceptance length is known beforehand, for proofs on a real GPU. Needs torch.

Every output projection that writes to the residual stream is zero, so a token's residual stream is its embedding:
the next-token law is "repeat the last token with probability p(T)", while attention, experts and MLP run at full
cost. A drafter that always proposes "repeat" is then accepted block_size tokens a step at T=0 and
(1 - p^B) / (1 - p) at T=1; a random drafter is accepted one token a step.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from safetensors.torch import save_file

Tensors = dict[str, torch.Tensor]
BF16 = torch.bfloat16
END, MASK = 2, 3
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|MASK|>")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for c in m['content'] %}{% if c['type'] in ['image', 'image_url'] %}<|media_pad|>{% else %}{{ c['text'] }}"
    "{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class Dice:
    """Seeded random tensors on one device."""

    def __init__(self, device: str, seed: int = 7) -> None:
        self.device = device
        self.generator = torch.Generator(device).manual_seed(seed)

    def normal(self, *shape: int, std: float = 0.02) -> torch.Tensor:
        return (torch.randn(*shape, generator=self.generator, device=self.device) * std).to(BF16)

    def zeros(self, *shape: int) -> torch.Tensor:
        return torch.zeros(*shape, dtype=BF16, device=self.device)

    def ones(self, size: int) -> torch.Tensor:
        return torch.ones(size, dtype=BF16, device=self.device)


def law_rows(dice: Dice, vocabulary: int, hidden: int, sharpness: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Embedding and head (both ``[vocabulary, hidden]``): the head's row of a token is that token's direction."""
    rows = torch.randn(vocabulary, hidden, generator=dice.generator, device=dice.device)
    rows = rows / rows.norm(dim=1, keepdim=True)
    inputs = rows.clone()
    inputs[MASK] = 0
    return (inputs * hidden**0.5 * 0.02).to(BF16), (rows * sharpness).to(BF16)


def repeat_probability(embedding: torch.Tensor, head: torch.Tensor, *, eps: float) -> float:
    """p(T=1): mean probability of repeating, over 1,000 tokens."""
    picked = torch.arange(300, 1300, device=head.device)
    state = embedding[picked].float()
    state = state / (state.pow(2).mean(-1, keepdim=True) + eps).sqrt()
    odds = torch.softmax(state.to(BF16).float() @ head.float().T, -1)
    return float(odds[torch.arange(1000, device=head.device), picked].mean())


def accept_length(p: float, block: int) -> float:
    """Tokens a verify step, bonus included, when each draft is right with probability ``p`` independently."""
    return float(block) if p >= 1 else (1 - p**block) / (1 - p)


def write_model(
    folder: Path,
    config: dict[str, object],
    shards: Iterator[Tensors],
    *,
    vocabulary: int = 0,
    media_token: str | None = None,
) -> None:
    """config, weights (one file a shard, with an index), and with ``vocabulary`` a tokenizer of that size.

    ``media_token`` is one more special token, at the id ``vocabulary``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    places: dict[str, str] = {}
    for number, tensors in enumerate(shards, 1):
        name = f"model-{number:05d}.safetensors"
        save_file(
            {key: t.cpu().clone() for key, t in tensors.items()},
            folder / name,
            metadata={"format": "pt"},
        )
        places |= dict.fromkeys(tensors, name)
    size = sum((folder / name).stat().st_size for name in set(places.values()))
    index = {"metadata": {"total_size": size}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    if vocabulary:
        write_tokenizer(folder, vocabulary, media_token)


def write_tokenizer(folder: Path, size: int, media_token: str | None) -> None:
    """Byte-level BPE without merges: every text encodes to its bytes; ids above them decode to filler words."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    letters = [chr(byte) if byte in printable else chr(next(spare)) for byte in range(256)]
    fillers = [f"w{number}" for number in range(size - 256 - len(SPECIAL))]
    vocab = {token: place for place, token in enumerate([*SPECIAL, *letters, *fillers])}
    special = SPECIAL if media_token is None else (*SPECIAL, media_token)
    vocab = {**vocab, **({media_token: size} if media_token else {})}
    added = [
        {"id": vocab[token], "content": token, "special": True, "lstrip": False, "rstrip": False}
        | {"single_word": False, "normalized": False}
        for token in special
    ]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "vocab": vocab, "merges": []}
    tokenizer = {"version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": level}
    tokenizer |= {"post_processor": None, "decoder": level, "model": model}
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": SPECIAL[END],
        "pad_token": SPECIAL[0],
    }
    settings |= {"model_max_length": 262144, "chat_template": TEMPLATE}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    ends = {"bos_token_id": 0, "eos_token_id": END, "pad_token_id": 0}
    (folder / "generation_config.json").write_text(json.dumps(ends))


def gated_mlp(dice: Dice, name: str, hidden: int, width: int, *, silent: bool = True) -> Tensors:
    """gate, up and down projection; ``silent``: down is zero."""
    down = dice.zeros(hidden, width) if silent else dice.normal(hidden, width)
    return {
        f"{name}.gate_proj.weight": dice.normal(width, hidden),
        f"{name}.up_proj.weight": dice.normal(width, hidden),
        f"{name}.down_proj.weight": down,
    }


def drafter_tensors(
    dice: Dice,
    shape: dict[str, int],
    *,
    copies: bool,
    captured: int,
) -> Tensors:
    """A DFlash drafter. ``copies``: it always proposes the last token again; else it is random.

    ``shape``: hidden, layers, heads, kv_heads, head_dim, mlp. The copying one attends uniformly in layer 0 and
    writes the first kv_heads * head_dim coordinates of the state back to their place.
    """
    hidden, heads, kv_heads, head_dim = (shape[k] for k in ("hidden", "heads", "kv_heads", "head_dim"))
    fc = dice.zeros(hidden, captured * hidden) if copies else dice.normal(hidden, captured * hidden)
    tensors = {"norm.weight": dice.ones(hidden), "hidden_norm.weight": dice.ones(hidden), "fc.weight": fc}
    for layer in range(shape["layers"]):
        name = f"layers.{layer}"
        tensors |= {f"{name}.input_layernorm.weight": dice.ones(hidden)}
        tensors |= {f"{name}.post_attention_layernorm.weight": dice.ones(hidden)}
        tensors |= {f"{name}.self_attn.{n}_norm.weight": dice.ones(head_dim) for n in "qk"}
        tensors |= {f"{name}.self_attn.k_proj.weight": dice.normal(kv_heads * head_dim, hidden)}
        if copies:
            tensors |= _copying(dice, name, shape, active=layer == 0)
        else:
            tensors |= {f"{name}.self_attn.q_proj.weight": dice.normal(heads * head_dim, hidden)}
            tensors |= {f"{name}.self_attn.v_proj.weight": dice.normal(kv_heads * head_dim, hidden)}
            tensors |= {f"{name}.self_attn.o_proj.weight": dice.normal(hidden, heads * head_dim)}
        tensors |= gated_mlp(dice, f"{name}.mlp", hidden, shape["mlp"], silent=copies)
    return tensors


def _copying(dice: Dice, name: str, shape: dict[str, int], *, active: bool) -> Tensors:
    hidden, heads, kv_heads, head_dim = (shape[k] for k in ("hidden", "heads", "kv_heads", "head_dim"))
    value, output = dice.zeros(kv_heads * head_dim, hidden), dice.zeros(hidden, heads * head_dim)
    if active:
        width = min(hidden, kv_heads * head_dim)
        span = torch.arange(width, device=dice.device)
        value[span, span] = 1
        for head in range(width // head_dim):
            first = head * (heads // kv_heads) * head_dim
            rows = torch.arange(head * head_dim, (head + 1) * head_dim, device=dice.device)
            output[rows, torch.arange(first, first + head_dim, device=dice.device)] = 1
    return {
        f"{name}.self_attn.q_proj.weight": dice.zeros(heads * head_dim, hidden),
        f"{name}.self_attn.v_proj.weight": value,
        f"{name}.self_attn.o_proj.weight": output,
    }


def qwen_layers(
    dice: Dice, shape: dict[str, int], mlp: Callable[[str], Tensors], sharpness: float
) -> tuple[Tensors, float]:
    """A Qwen3 target that obeys the law, and its p(T=1)."""
    hidden, heads, kv_heads, head_dim = (shape[k] for k in ("hidden", "heads", "kv_heads", "head_dim"))
    embedding, head = law_rows(dice, shape["vocabulary"], hidden, sharpness)
    tensors = {
        "model.embed_tokens.weight": embedding,
        "lm_head.weight": head,
        "model.norm.weight": dice.ones(hidden),
    }
    for layer in range(shape["layers"]):
        name = f"model.layers.{layer}"
        for part, rows in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
            tensors[f"{name}.self_attn.{part}_proj.weight"] = dice.normal(rows * head_dim, hidden)
        tensors[f"{name}.self_attn.o_proj.weight"] = dice.zeros(hidden, heads * head_dim)
        tensors |= {f"{name}.self_attn.{n}_norm.weight": dice.ones(head_dim) for n in "qk"}
        tensors |= {f"{name}.{n}_layernorm.weight": dice.ones(hidden) for n in ("input", "post_attention")}
        tensors |= mlp(f"{name}.mlp")
    return tensors, repeat_probability(embedding, head, eps=1e-6)
