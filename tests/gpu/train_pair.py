"""Train the kit's demo pair: a tiny target and a DFlash drafter for it, from text made by rule.

``python3 train_pair.py OUT [--device cuda] [--steps 3000]``. The world: sums, differences, brackets to close, words to
reverse or repeat, and a few fixed answers. OUT/demo is a Qwen3 of 4 layers, OUT/demo-drafter a DFlash drafter of 2
layers and block 8 (BF16, together 10 MB). Laid into kitctl/data, 'kitctl models lock kitctl/demo kitctl/demo-drafter'
renews their hashes. The drafter computes as SGLang's does (0.5.16, models/dflash.py): the target's layer outputs give
context keys and values through fc and hidden_norm; the block attends to all and to itself.
Seeded; bit-equal weights need the same kind of GPU and the same torch.
"""

import argparse
import json
import random
import time
from pathlib import Path

import torch
from model_files import BF16, END, MASK, SPECIAL, write_tokenizer
from safetensors.torch import load_file, save_file
from torch import nn

VOCABULARY, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, MLP = 512, 256, 4, 2, 64, 768
TARGET_LAYERS, DRAFT_LAYERS, BLOCK = 4, 2, 8
CAPTURED = (0, 1, 2)
"""SGLang 0.5.16 captures a layer's output at the next layer's input, so the last layer's never comes."""
LENGTH, BATCH, POOL, ANCHORS, THETA, EPS = 112, 256, 40_000, 4, 10000.0, 1e-6
START = len(SPECIAL)
ROLES = {"user": SPECIAL[1] + "user\n", "assistant": SPECIAL[1] + "assistant\n"}
FACTS = {
    "Does this stack answer?": "Yes: the engine is up, and this sentence was made by it.",
    "Who are you?": "I am the micro model of kitctl. I know sums, brackets and a few words.",
    "Hello": "Hello! Ask me for a sum, a word in reverse, or brackets to close.",
    "What is a stack?": "A stack is one named serving configuration: model, drafter, layout and image.",
    "What is an overlay?": "An overlay holds all that differs between kinds of host.",
    "Count to ten.": "one, two, three, four, five, six, seven, eight, nine, ten.",
}
WORDS = ["stack", "overlay", "image", "model", "drafter", "plan", "render", "engine", "weights", "graph"]
WORDS += ["memory", "token", "cache", "bench", "record", "host", "probe", "fault", "remedy", "lock"]


def sample(dice: random.Random) -> tuple[str, str]:
    """One question and its answer."""
    kind = dice.randrange(6)
    if kind == 0:
        a, b = dice.randrange(100), dice.randrange(100)
        return f"What is {a} + {b}?", f"{a} + {b} = {a + b}."
    if kind == 1:
        a, b = sorted((dice.randrange(100), dice.randrange(100)), reverse=True)
        return f"What is {a} - {b}?", f"{a} - {b} = {a - b}."
    if kind == 2:
        opened = "".join(dice.choice("([{<") for _ in range(dice.randrange(2, 9)))
        return f"Close {opened}", opened + "".join(
            dict(zip("([{<", ")]}>", strict=True))[c] for c in reversed(opened)
        )
    if kind == 3:
        words = " ".join(dice.sample(WORDS, dice.randrange(2, 5)))
        return f"Repeat: {words}", words + "."
    if kind == 4:
        word = dice.choice(WORDS)
        return f"Reverse {word}", f"{word} backwards is {word[::-1]}."
    question = dice.choice(list(FACTS))
    return question, FACTS[question]


def encode(text: str) -> list[int]:
    """Special tokens by name, everything else by its bytes (as the tokenizer that write_tokenizer makes)."""
    ids: list[int] = []
    while text:
        special = next((token for token in SPECIAL if text.startswith(token)), None)
        if special:
            ids.append(SPECIAL.index(special))
            text = text[len(special) :]
        else:
            ids += [START + byte for byte in text[0].encode()]
            text = text[1:]
    return ids


def conversation(dice: random.Random) -> tuple[list[int], int]:
    """Token ids of one exchange, and where the answer begins."""
    question, answer = sample(dice)
    asked = encode(f"{ROLES['user']}{question}{SPECIAL[END]}\n{ROLES['assistant']}")
    return asked + encode(answer) + [END], len(asked)


class Pool:
    """Conversations made once, drawn from at random: ``ids`` [POOL, LENGTH], ``answer`` True inside answers."""

    def __init__(self, dice: random.Random, device: str) -> None:
        ids = torch.zeros(POOL, LENGTH, dtype=torch.long)
        answer = torch.zeros(POOL, LENGTH, dtype=torch.bool)
        for row in range(POOL):
            tokens, begin = conversation(dice)
            tokens = tokens[:LENGTH]
            ids[row, : len(tokens)] = torch.tensor(tokens)
            answer[row, begin : len(tokens)] = True
        self.ids, self.answer = ids.to(device), answer.to(device)

    def draw(self) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.randint(POOL, (BATCH,), device=self.ids.device)
        return self.ids[rows], self.answer[rows]


class Norm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS)).to(x.dtype) * self.weight


def turned(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Rotary embedding, neox style; ``x`` [batch, heads, length, head_dim], ``positions`` [batch, length]."""
    half = HEAD_DIM // 2
    rates = THETA ** (-torch.arange(half, device=x.device) / half)
    angle = positions[:, None, :, None].float() * rates
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    left, right = x[..., :half], x[..., half:]
    return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q_proj = nn.Linear(HIDDEN, HEADS * HEAD_DIM, bias=False)
        self.k_proj = nn.Linear(HIDDEN, KV_HEADS * HEAD_DIM, bias=False)
        self.v_proj = nn.Linear(HIDDEN, KV_HEADS * HEAD_DIM, bias=False)
        self.o_proj = nn.Linear(HEADS * HEAD_DIM, HIDDEN, bias=False)
        self.q_norm, self.k_norm = Norm(HEAD_DIM), Norm(HEAD_DIM)

    def keys_values(self, x: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shape = (*x.shape[:2], KV_HEADS, HEAD_DIM)
        keys = self.k_norm(self.k_proj(x).view(shape)).transpose(1, 2)
        return turned(keys, positions), self.v_proj(x).view(shape).transpose(1, 2)

    def forward(
        self,
        x: torch.Tensor,
        positions: torch.Tensor,
        mask: torch.Tensor,
        context: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> torch.Tensor:
        queries = self.q_norm(self.q_proj(x).view(*x.shape[:2], HEADS, HEAD_DIM)).transpose(1, 2)
        keys, values = self.keys_values(x, positions)
        if context is not None:
            keys, values = torch.cat([context[0], keys], 2), torch.cat([context[1], values], 2)
        keys, values = (part.repeat_interleave(HEADS // KV_HEADS, 1) for part in (keys, values))
        mixed = nn.functional.scaled_dot_product_attention(
            turned(queries, positions), keys, values, attn_mask=mask
        )
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(HIDDEN, MLP, bias=False)
        self.up_proj = nn.Linear(HIDDEN, MLP, bias=False)
        self.down_proj = nn.Linear(MLP, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = Norm(HIDDEN), Norm(HIDDEN)
        self.self_attn, self.mlp = Attention(), Mlp()

    def forward(
        self,
        x: torch.Tensor,
        positions: torch.Tensor,
        mask: torch.Tensor,
        context: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), positions, mask, context)
        return x + self.mlp(self.post_attention_layernorm(x))


class Target(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(TARGET_LAYERS))
        self.norm = Norm(HIDDEN)
        self.lm_head = nn.Linear(HIDDEN, VOCABULARY, bias=False)
        nn.init.normal_(self.embed_tokens.weight, std=0.5)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits, and the captured layers' outputs side by side [batch, length, len(CAPTURED) * HIDDEN]."""
        length = ids.shape[1]
        positions = torch.arange(length, device=ids.device).expand(ids.shape)
        mask = torch.ones(length, length, dtype=torch.bool, device=ids.device).tril()
        x, kept = self.embed_tokens(ids), []
        for number, layer in enumerate(self.layers):
            x = layer(x, positions, mask)
            kept += [x] if number in CAPTURED else []
        return self.lm_head(self.norm(x)), torch.cat(kept, -1)


class Drafter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(len(CAPTURED) * HIDDEN, HIDDEN, bias=False)
        self.hidden_norm, self.norm = Norm(HIDDEN), Norm(HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(DRAFT_LAYERS))

    def forward(self, embedded: torch.Tensor, features: torch.Tensor, anchors: torch.Tensor) -> torch.Tensor:
        """Hidden states of the block [batch, BLOCK, HIDDEN]; ``embedded`` is the block's token embedding."""
        rows, length = features.shape[:2]
        context = self.hidden_norm(self.fc(features))
        before = torch.arange(length, device=features.device).expand(rows, length)
        positions = anchors[:, None] + torch.arange(BLOCK, device=features.device)
        seen = torch.cat([before < anchors[:, None], torch.ones_like(positions, dtype=torch.bool)], 1)
        mask = seen[:, None, None, :].expand(rows, 1, BLOCK, length + BLOCK)
        x = embedded
        for layer in self.layers:
            x = layer(x, positions, mask, layer.self_attn.keys_values(context, before))
        return self.norm(x)


def train_target(target: Target, pool: Pool, steps: int, device: str) -> float:
    optimizer = torch.optim.AdamW(target.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps, pct_start=0.05)
    loss = torch.zeros(())
    for step in range(steps):
        ids, answer = pool.draw()
        with torch.autocast(device.split(":")[0], BF16):
            logits, _ = target(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.float()[answer[:, 1:]], ids[:, 1:][answer[:, 1:]])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(target.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 500 == 0:
            print(f"target step {step} loss {loss.item():.4f}", flush=True)
    return float(loss.item())


def train_drafter(drafter: Drafter, target: Target, pool: Pool, steps: int, device: str) -> float:
    optimizer = torch.optim.AdamW(drafter.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps, pct_start=0.05)
    weights = 0.8 ** torch.arange(BLOCK - 1, device=device)
    loss = torch.zeros(())
    for step in range(steps):
        ids, answer = pool.draw()
        begins = answer.float().argmax(1)
        spans = answer.sum(1)
        with torch.autocast(device.split(":")[0], BF16):
            with torch.no_grad():
                _, features = target(ids)
            steps_in = (torch.rand(BATCH, ANCHORS, device=device) * spans[:, None]).long()
            anchors = (begins[:, None] + steps_in - 1).flatten()
            rows = torch.arange(BATCH, device=device).repeat_interleave(ANCHORS)
            places = (anchors[:, None] + torch.arange(BLOCK, device=device)).clamp(max=LENGTH - 1)
            truth = ids[rows].gather(1, places)
            real = answer[rows].gather(1, places)[:, 1:] & (places[:, 1:] > places[:, :-1])
            block = torch.full_like(truth, MASK)
            block[:, 0] = truth[:, 0]
            hidden = drafter(target.embed_tokens(block), features[rows], anchors)
            logits = target.lm_head(hidden[:, 1:])
        each = nn.functional.cross_entropy(
            logits.float().flatten(0, 1), truth[:, 1:].flatten(), reduction="none"
        )
        kept = real.flatten() * weights.repeat(len(anchors))
        loss = (each * kept).sum() / kept.sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(drafter.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 500 == 0:
            print(f"drafter step {step} loss {loss.item():.4f}", flush=True)
    return float(loss.item())


def load_target(target: Target, out: Path) -> None:
    tensors = load_file(out / "demo" / "model.safetensors")
    target.load_state_dict({name.removeprefix("model."): tensor.float() for name, tensor in tensors.items()})


def config_of(layers: int, **more: object) -> dict[str, object]:
    return {
        "model_type": "qwen3",
        "hidden_size": HIDDEN,
        "num_hidden_layers": layers,
        "vocab_size": VOCABULARY,
        "head_dim": HEAD_DIM,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "intermediate_size": MLP,
        "hidden_act": "silu",
        "rms_norm_eps": EPS,
        "max_position_embeddings": 8192,
        "rope_theta": THETA,
        "attention_bias": False,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": 0,
        "eos_token_id": END,
        "pad_token_id": 0,
    } | more


def write_whole(folder: Path, config: dict[str, object], tensors: dict[str, torch.Tensor]) -> None:
    """config.json and all weights in one file, without an index."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    whole = {name: tensor.cpu().clone() for name, tensor in tensors.items()}
    save_file(whole, folder / "model.safetensors", metadata={"format": "pt"})


def save(out: Path, target: Target, drafter: Drafter) -> None:
    tensors = {
        f"model.{name}": t.to(BF16)
        for name, t in target.state_dict().items()
        if not name.startswith("lm_head")
    }
    tensors["lm_head.weight"] = target.lm_head.weight.detach().to(BF16)
    config = config_of(TARGET_LAYERS, architectures=["Qwen3ForCausalLM"])
    write_whole(out / "demo", config, tensors)
    write_tokenizer(out / "demo", VOCABULARY, None)
    draft = config_of(
        DRAFT_LAYERS,
        architectures=["DFlashDraftModel"],
        layer_types=["full_attention"] * DRAFT_LAYERS,
        block_size=BLOCK,
        num_target_layers=TARGET_LAYERS,
        dflash_config={"mask_token_id": MASK, "target_layer_ids": list(CAPTURED)},
    )
    write_whole(out / "demo-drafter", draft, {n: t.to(BF16) for n, t in drafter.state_dict().items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--keep-target", action="store_true", help="train a drafter for the target in OUT")
    args = parser.parse_args()
    torch.manual_seed(7)
    begun_s = time.time()
    pool = Pool(random.Random(7), args.device)
    target, drafter = Target().to(args.device), Drafter().to(args.device)
    losses = {}
    if args.keep_target:
        load_target(target, args.out)
    else:
        losses["target"] = train_target(target, pool, args.steps, args.device)
    target.requires_grad_(False)
    losses["drafter"] = train_drafter(drafter, target, pool, args.steps, args.device)
    save(args.out, target, drafter)
    told = {
        "losses": losses,
        "steps": args.steps,
        "seconds": round(time.time() - begun_s, 1),
        "torch": torch.__version__,
    }
    (args.out / "training.json").write_text(json.dumps(told, indent=1))
    print(told)


if __name__ == "__main__":
    main()
