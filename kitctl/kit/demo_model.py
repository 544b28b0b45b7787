"""The demo model: a tiny Qwen3 whose answer is known, made from nothing but this file.

``o_proj`` and ``down_proj`` are zero, so a token's residual stream is its embedding and the head alone decides
what follows it: the demo sentence, word by word, then the end token. No word is a single byte, so that whatever a
prompt ends with, the whole sentence follows. Attention and MLP still run. Every file is the same bytes on every
machine, so the model has a hash like any other.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterator

DEMO_MODEL = "kitctl/demo"
SENTENCE = ("Hello", " from", " kitctl:", " this", " stack", " is", " up", " and", " answers.")

_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_HIDDEN, _LAYERS, _HEADS, _KV_HEADS, _HEAD_DIM, _MLP = 128, 2, 4, 2, 32, 256
_VOCABULARY = 512
_BYTE_DIM = 32
_NOISE_FROM = 64
_SEED = 20261129

_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def demo_files() -> dict[str, bytes]:
    """The demo model's files by name: config, tokenizer and weights (about 1 MB)."""
    return {
        "config.json": demo_config().encode(),
        "generation_config.json": _json({"eos_token_id": _token_ids()["<|im_end|>"], "do_sample": False}),
        "tokenizer.json": _json(_tokenizer()),
        "tokenizer_config.json": _json(_tokenizer_config()),
        "model.safetensors": _safetensors(dict(_tensors())),
    }


def demo_config() -> str:
    """The demo model's config.json alone."""
    return _json(_config()).decode()


def demo_hash(files: dict[str, bytes]) -> str:
    """One hash over all files, names included (hexadecimal sha256)."""
    total = hashlib.sha256()
    for name in sorted(files):
        total.update(f"{name}\0{len(files[name])}\0".encode())
        total.update(files[name])
    return total.hexdigest()


def _json(tree: object) -> bytes:
    return (json.dumps(tree, indent=1, sort_keys=True, ensure_ascii=True) + "\n").encode()


def _config() -> dict[str, object]:
    ids = _token_ids()
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": _HIDDEN,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _KV_HEADS,
        "head_dim": _HEAD_DIM,
        "intermediate_size": _MLP,
        "vocab_size": _VOCABULARY,
        "max_position_embeddings": 8192,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": ids["<|endoftext|>"],
        "eos_token_id": ids["<|im_end|>"],
    }


def _byte_characters() -> list[str]:
    """The 256 printable stand-ins of byte-level BPE, by byte value (GPT-2's table)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(spare)) for byte in range(256)]


def _token_ids() -> dict[str, int]:
    """Bytes, then the sentence's words (never made by encoding: there are no merges), then special tokens."""
    characters = _byte_characters()
    words = ["".join(characters[byte] for byte in word.encode()) for word in SENTENCE]
    fresh = [word for word in words if word not in characters]
    return {token: index for index, token in enumerate([*characters, *fresh, *_SPECIAL])}


def _tokenizer() -> dict[str, object]:
    ids = _token_ids()
    added = [
        {
            "id": ids[token],
            "content": token,
            "special": True,
            "lstrip": False,
            "rstrip": False,
            "single_word": False,
            "normalized": False,
        }
        for token in _SPECIAL
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "vocab": {token: index for token, index in ids.items() if token not in _SPECIAL},
            "merges": [],
        },
    }


def _tokenizer_config() -> dict[str, object]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|endoftext|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": 8192,
        "chat_template": _TEMPLATE,
    }


def _sentence_ids() -> list[int]:
    ids, characters = _token_ids(), _byte_characters()
    return [ids["".join(characters[byte] for byte in word.encode())] for word in SENTENCE]


def _tensors() -> Iterator[tuple[str, tuple[tuple[int, ...], bytes]]]:
    yield "model.embed_tokens.weight", _matrix(_embedding())
    for layer in range(_LAYERS):
        yield from _layer(f"model.layers.{layer}")
    yield "model.norm.weight", _constant((_HIDDEN,), 1.0)
    yield "lm_head.weight", _matrix(_head())


def _layer(name: str) -> Iterator[tuple[str, tuple[tuple[int, ...], bytes]]]:
    query, key = _HEADS * _HEAD_DIM, _KV_HEADS * _HEAD_DIM
    for part, rows in (("q", query), ("k", key), ("v", key)):
        weight = f"{name}.self_attn.{part}_proj.weight"
        yield weight, _noise((rows, _HIDDEN), weight)
    yield f"{name}.self_attn.o_proj.weight", _constant((_HIDDEN, query), 0.0)
    yield f"{name}.self_attn.q_norm.weight", _constant((_HEAD_DIM,), 1.0)
    yield f"{name}.self_attn.k_norm.weight", _constant((_HEAD_DIM,), 1.0)
    for part in ("gate", "up"):
        weight = f"{name}.mlp.{part}_proj.weight"
        yield weight, _noise((_MLP, _HIDDEN), weight)
    yield f"{name}.mlp.down_proj.weight", _constant((_HIDDEN, _MLP), 0.0)
    yield f"{name}.input_layernorm.weight", _constant((_HIDDEN,), 1.0)
    yield f"{name}.post_attention_layernorm.weight", _constant((_HIDDEN,), 1.0)


def _embedding() -> list[list[float]]:
    """One row a token: a mark that says which word it is (or that it is none), and noise."""
    chain = {token: place for place, token in enumerate(_sentence_ids())}
    noise = _dice("embedding", _VOCABULARY * (_HIDDEN - _NOISE_FROM))
    rows = []
    for token in range(_VOCABULARY):
        row = [0.0] * _NOISE_FROM
        row[chain.get(token, _BYTE_DIM)] = 8.0
        thrown = noise[token * (_HIDDEN - _NOISE_FROM) :][: _HIDDEN - _NOISE_FROM]
        rows.append(row + [0.5 if side & 1 else -0.5 for side in thrown])
    return rows


def _head() -> list[list[float]]:
    """The row of each sentence word answers to the mark of the word before it; the first to all others."""
    rows = [[0.0] * _HIDDEN for _ in range(_VOCABULARY)]
    before: int = _BYTE_DIM
    for place, token in enumerate(_sentence_ids()):
        rows[token][before] = 8.0
        before = place
    rows[_token_ids()["<|im_end|>"]][before] = 8.0
    return rows


def _dice(name: str, count: int) -> bytes:
    """Bytes that look random and are the same everywhere."""
    return hashlib.shake_256(f"{_SEED} {name}".encode()).digest(count)


def _bfloat16(values: list[float]) -> bytes:
    """The upper halves of the float32s; exact for the values used here."""
    raw = struct.pack(f"<{len(values)}f", *values)
    halves = bytearray(2 * len(values))
    halves[0::2], halves[1::2] = raw[2::4], raw[3::4]
    return bytes(halves)


def _matrix(rows: list[list[float]]) -> tuple[tuple[int, ...], bytes]:
    return (len(rows), len(rows[0])), b"".join(_bfloat16(row) for row in rows)


def _constant(shape: tuple[int, ...], value: float) -> tuple[tuple[int, ...], bytes]:
    return shape, _bfloat16([value]) * math.prod(shape)


def _noise(shape: tuple[int, int], name: str) -> tuple[tuple[int, ...], bytes]:
    steps = [_bfloat16([sign * size]) for sign in (-1, 1) for size in (0.015625, 0.03125, 0.0625)]
    dice = _dice(name, math.prod(shape))
    halves = bytearray(2 * len(dice))
    for half in (0, 1):
        halves[half::2] = dice.translate(bytes(steps[side % len(steps)][half] for side in range(256)))
    return shape, bytes(halves)


def _safetensors(tensors: dict[str, tuple[tuple[int, ...], bytes]]) -> bytes:
    """The safetensors container: header length, JSON header padded to 8 bytes, then the data."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors.values())
