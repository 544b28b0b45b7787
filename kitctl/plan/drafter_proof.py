"""Was this drafter made for this target? What config.json cannot say: the tokenizers and the captured width.

The configs are held against each other by the rules about ``drafter`` (``data/engine_rules.yaml``). All of it works on
small files alone, before hundreds of gigabytes are fetched; tokenizers are first compared by the hashes of models.lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kitctl.finding import Finding, Severity
from kitctl.kit.drafter_facts import DrafterFacts, DrafterKind
from kitctl.kit.json_text import parse_json
from kitctl.kit.model_facts import ModelFacts

TOKENIZER_FILES = ("tokenizer.json", "tiktoken.model", "tokenizer.model", "vocab.json")
READABLE = "tokenizer.json"
SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class TokenizerFiles:
    """A model's tokenizer: hash by file name (any hash, the same kind for both models), and tokenizer.json's text."""

    hashes: Mapping[str, str]
    text: str | None = None


def prove_drafter(
    model: ModelFacts,
    drafter: DrafterFacts,
    *,
    target_tokenizer: TokenizerFiles,
    drafter_tokenizer: TokenizerFiles,
    fc_shape: tuple[int, ...] | None = None,
) -> tuple[Finding, ...]:
    """Findings on what the small files and the drafter's header show; nothing where they agree."""
    found = [compare_tokenizers(target_tokenizer, drafter_tokenizer), _check_fc(model, drafter, fc_shape)]
    return tuple(finding for finding in found if finding is not None)


def compare_tokenizers(target: TokenizerFiles, drafter: TokenizerFiles) -> Finding | None:
    """``None`` when the drafter has no tokenizer of its own (it then uses the target's) or the same one."""
    own = [name for name in TOKENIZER_FILES if name in drafter.hashes]
    if not own and drafter.text is None:
        return None
    both = [name for name in own if name in target.hashes]
    if both and all(target.hashes[name] == drafter.hashes[name] for name in both):
        return None
    if target.text is not None and drafter.text is not None:
        return _compare_tables(target.text, drafter.text)
    files = ", ".join(own) or READABLE
    return Finding(
        code="drafter-tokenizer-unproven",
        severity=Severity.WARN,
        cause=f"the drafter brings a tokenizer of its own ({files}) whose bytes are not the target's",
        remedy="fetch the small files of both (kitctl models pull) and plan again: the tables are then compared",
        where="drafter.model",
    )


def _compare_tables(target_text: str, drafter_text: str) -> Finding | None:
    target, drafter = token_table(target_text), token_table(drafter_text)
    if target is None or drafter is None or target == drafter:
        return None
    names = sorted(set(target) | set(drafter), key=lambda name: (target.get(name, -1), name))
    differing = [name for name in names if target.get(name) != drafter.get(name)]
    shown = [
        f"{name!r}: target {target.get(name)}, drafter {drafter.get(name)}" for name in differing[:SHOWN]
    ]
    return Finding(
        code="drafter-tokenizer-differs",
        severity=Severity.BLOCK,
        cause=f"{len(differing)} tokens have another id in the drafter's tokenizer than in the target's",
        remedy="choose a drafter that was trained for this target",
        evidence=tuple(shown),
        where="drafter.model",
    )


def token_table(text: str) -> dict[str, int] | None:
    """Token -> id of a tokenizer.json, added tokens included; ``None`` when it is none."""
    try:
        tree: Any = parse_json(text)
        vocab = tree["model"]["vocab"]
        pairs = vocab.items() if isinstance(vocab, dict) else ((entry[0], i) for i, entry in enumerate(vocab))
        table = {str(token): int(index) for token, index in pairs}
        return table | {one["content"]: int(one["id"]) for one in tree.get("added_tokens") or ()}
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def _check_fc(model: ModelFacts, drafter: DrafterFacts, shape: tuple[int, ...] | None) -> Finding | None:
    """The projection of captured hidden states must be as wide as what is captured."""
    if shape is None or drafter.kind not in (DrafterKind.DFLASH, DrafterKind.DFLASH2) or len(shape) != 2:
        return None
    count = len(drafter.captured_layers(model.layers))
    wanted = (drafter.hidden_size, count * model.hidden_size)
    if shape == wanted:
        return None
    return Finding(
        code="drafter-captured-width",
        severity=Severity.BLOCK,
        cause=f"the drafter's fc.weight is {shape[0]} x {shape[1]}, but {count} captured layers of the target need "
        f"{wanted[0]} x {wanted[1]}",
        remedy="see that config.json and weights of the drafter are of one commit (kitctl models verify)",
        evidence=("SGLang dies 47 s after launch: DFLASH fc.weight shape mismatch (H200, 0.5.16)",),
        where="drafter.model",
    )
