"""The demo model is the same bytes everywhere, is what it says it is, and can say only its sentence."""

import json
import struct
from itertools import pairwise

from kitctl.kit.demo_model import SENTENCE, demo_files, demo_hash

FILES = demo_files()


def test_bytes_are_the_same_on_every_machine() -> None:
    assert demo_hash(FILES) == "6c206727b1c8337313a466ed5b0ecd8bc881a2310218ab307e4d80856c8fa32e"
    assert demo_hash(demo_files()) == demo_hash(FILES)


def test_hash_covers_names_and_bytes() -> None:
    renamed = {f"x{name}": data for name, data in FILES.items()}
    changed = FILES | {"config.json": b"{}"}
    assert len({demo_hash(FILES), demo_hash(renamed), demo_hash(changed)}) == 3


def test_it_is_small() -> None:
    assert sorted(FILES) == [
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert sum(len(data) for data in FILES.values()) < 3_000_000


def weights() -> tuple[dict[str, dict[str, object]], bytes]:
    raw = FILES["model.safetensors"]
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__")
    return header, raw[8 + length :]


def matrix(name: str) -> list[list[float]]:
    header, data = weights()
    begin, end = header[name]["data_offsets"]  # type: ignore[misc]
    rows, width = header[name]["shape"]  # type: ignore[misc]
    halves = struct.unpack(f"<{(end - begin) // 2}H", data[begin:end])
    values = [struct.unpack("<f", struct.pack("<I", half << 16))[0] for half in halves]
    return [values[row * width : (row + 1) * width] for row in range(rows)]


def test_tensors_fill_the_file_without_gap() -> None:
    header, data = weights()
    spans = sorted(tuple(entry["data_offsets"]) for entry in header.values())  # type: ignore[arg-type]
    assert spans[0][0] == 0
    assert spans[-1][1] == len(data)
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    config = json.loads(FILES["config.json"])
    assert header["lm_head.weight"]["shape"] == [config["vocab_size"], config["hidden_size"]]
    assert {entry["dtype"] for entry in header.values()} == {"BF16"}


def test_any_prompt_is_followed_by_the_whole_sentence() -> None:
    """Attention and MLP add nothing (their last projections are zero), so embedding and head alone decide."""
    vocabulary = json.loads(FILES["tokenizer.json"])["model"]["vocab"]
    end = json.loads(FILES["config.json"])["eos_token_id"]
    embedding, head = matrix("model.embed_tokens.weight"), matrix("lm_head.weight")
    texts = {token: word.replace("Ġ", " ") for word, token in vocabulary.items()}

    def following(token: int) -> int:
        row = embedding[token]
        scores = [sum(a * b for a, b in zip(row, other, strict=True)) for other in head]
        return max(range(len(scores)), key=scores.__getitem__)

    for last in (vocabulary["."], vocabulary[":"], vocabulary["Ċ"], vocabulary["a"]):
        said, token = "", following(last)
        while token != end:
            said, token = said + texts[token], following(token)
        assert said == "".join(SENTENCE) == "Hello from kitctl: this stack is up and answers."
