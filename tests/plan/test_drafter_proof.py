import json
from pathlib import Path

import pytest

from kitctl.finding import Severity
from kitctl.kit.drafter_facts import read_drafter_facts
from kitctl.kit.model_facts import read_model_facts
from kitctl.plan.drafter_proof import TokenizerFiles, compare_tokenizers, prove_drafter, token_table

MODELS = Path(__file__).parents[1] / "cases" / "models"
MODEL = read_model_facts((MODELS / "qwen3-tiny" / "config.json").read_text())
DRAFTER = read_drafter_facts((MODELS / "qwen3-tiny-dflash" / "config.json").read_text())
NONE = TokenizerFiles(hashes={})


def tokenizer(**added: int) -> str:
    more = [{"id": index, "content": token} for token, index in added.items()]
    return json.dumps({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}}, "added_tokens": more})


def test_a_drafter_without_a_tokenizer_uses_the_targets() -> None:
    target = TokenizerFiles(hashes={"tokenizer.json": "1"})
    assert prove_drafter(MODEL, DRAFTER, target_tokenizer=target, drafter_tokenizer=NONE) == ()


def test_equal_hashes_prove_equal_tokenizers() -> None:
    same = TokenizerFiles(hashes={"tiktoken.model": "1", "tokenizer.json": "2"})
    assert compare_tokenizers(same, same) is None


def test_other_bytes_with_the_same_table_are_equal() -> None:
    target = TokenizerFiles(hashes={"tokenizer.json": "1"}, text=tokenizer(mask=2))
    drafter = TokenizerFiles(hashes={"tokenizer.json": "2"}, text=tokenizer(mask=2) + "\n")
    assert compare_tokenizers(target, drafter) is None


def test_another_id_for_a_token_is_refused_and_shown() -> None:
    target = TokenizerFiles(hashes={"tokenizer.json": "1"}, text=tokenizer(mask=2))
    drafter = TokenizerFiles(hashes={"tokenizer.json": "2"}, text=tokenizer(mask=3, extra=4))
    found = compare_tokenizers(target, drafter)
    assert found is not None
    assert (found.code, found.severity) == ("drafter-tokenizer-differs", Severity.BLOCK)
    assert found.cause == "2 tokens have another id in the drafter's tokenizer than in the target's"
    assert found.evidence == ("'extra': target None, drafter 4", "'mask': target 2, drafter 3")


def test_other_bytes_without_the_texts_are_told_as_unproven() -> None:
    target = TokenizerFiles(hashes={"tokenizer.json": "1"})
    drafter = TokenizerFiles(hashes={"tokenizer.json": "2"})
    found = compare_tokenizers(target, drafter)
    assert found is not None
    assert (found.code, found.severity) == ("drafter-tokenizer-unproven", Severity.WARN)


def test_a_projection_for_another_number_of_layers_is_refused() -> None:
    """The drafter that SGLang refused 47 s after launch (H200, 0.5.16)."""
    (found,) = prove_drafter(
        MODEL, DRAFTER, target_tokenizer=NONE, drafter_tokenizer=NONE, fc_shape=(512, 5 * 512)
    )
    assert (found.code, found.severity) == ("drafter-captured-width", Severity.BLOCK)
    assert found.cause == (
        "the drafter's fc.weight is 512 x 2560, but 3 captured layers of the target need 512 x 1536"
    )


def test_the_right_projection_is_silent() -> None:
    assert (
        prove_drafter(MODEL, DRAFTER, target_tokenizer=NONE, drafter_tokenizer=NONE, fc_shape=(512, 1536))
        == ()
    )


@pytest.mark.parametrize("text", ["", "[]", '{"model": {}}', '{"model": {"vocab": [[]]}}'])
def test_what_is_no_tokenizer_json_has_no_table(text: str) -> None:
    assert token_table(text) is None


def test_a_unigram_table_is_numbered_by_place() -> None:
    assert token_table('{"model": {"vocab": [["a", -1.0], ["b", -2.0]]}}') == {"a": 0, "b": 1}
