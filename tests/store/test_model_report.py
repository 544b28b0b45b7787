"""A model's shape in words and numbers: target and drafter of the reference deployment."""

from __future__ import annotations

from pathlib import Path

import pytest

from kitctl.errors import KitError
from kitctl.kit.models_lock import find_entry, read_models_lock
from kitctl.store.model_report import Inspected, inspect_json, inspect_lines, kv_bytes_per_token, read_facts

LOCK = read_models_lock((Path(__file__).parents[2] / "models.lock").read_text())


def inspected(repo: str) -> Inspected:
    entry = find_entry(LOCK, repo)
    facts = read_facts(entry.config_json or "", source="x", is_drafter=False)
    return Inspected(
        name=repo,
        origin="models.lock",
        facts=facts,
        bytes_by_dtype={"BF16": 6_957_847_019},
        size_bytes=entry.size_bytes,
    )


def test_the_drafter_is_recognised_by_its_configuration() -> None:
    assert inspect_lines(inspected("SubSir/Kimi-K2.6-DFlash-tmp-long")) == (
        "SubSir/Kimi-K2.6-DFlash-tmp-long",
        "  architecture   DFlashDraftModel",
        "  layers         6, hidden size 7168",
        "  drafter        DFlash",
        "  block size     8",
        "  target layers  1, 12, 24, 35, 47, 58",
        "  mask token     163838",
        "  attention      64 heads, 8 KV heads of 128",
        "  context        262144",
        "  KV per token   24576 bytes in BF16",
        "  weights        BF16 6.96 GB",
        "  size           6.96 GB",
        "  facts from     models.lock",
    )


def test_kv_bytes_follow_the_attention_kind() -> None:
    """MLA: 61 x (512 + 64) x 2; grouped: 6 x 2 x 8 x 128 x 2."""
    assert kv_bytes_per_token(inspected("moonshotai/Kimi-K2.6").facts) == 70_272
    assert kv_bytes_per_token(inspected("SubSir/Kimi-K2.6-DFlash-tmp-long").facts) == 24_576


def test_the_json_names_its_schema_and_kind() -> None:
    data = inspect_json(inspected("moonshotai/Kimi-K2.6"))
    assert (data["schema"], data["kind"], data["kv_bytes_per_token_bf16"]) == (
        "kitctl.models-inspect/1",
        "target",
        70_272,
    )
    assert inspect_json(inspected("z-lab/Kimi-K2.6-DFlash"))["kind"] == "drafter"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"architectures": 3}'])
def test_a_configuration_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(KitError) as caught:
        read_facts(text, source="config.json", is_drafter=False)
    assert caught.value.code == "model-config"
