"""Keep secrets out of what is recorded and shown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

HIDDEN = "(hidden)"
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|API_?KEY|ACCESS_KEY|PRIVATE_KEY)(?:_|$)"
)
_SECRET_FLAGS = frozenset({"--api-key", "--admin-api-key", "--ssl-keyfile-password"})


def is_secret_name(name: str) -> bool:
    """Whether an environment variable of this name holds a secret (``HF_TOKEN``, not ``MAX_TOKENS``)."""
    return _SECRET_NAME.search(name.upper()) is not None


def redacted(tree: Any) -> Any:
    """``tree`` (maps, lists, scalars) with secrets in ``environment`` maps and after secret flags hidden."""
    if isinstance(tree, Mapping):
        return {name: _entry(name, value) for name, value in tree.items()}
    if isinstance(tree, str) or not isinstance(tree, Sequence):
        return tree
    return [
        HIDDEN if at and str(tree[at - 1]) in _SECRET_FLAGS else redacted(value)
        for at, value in enumerate(tree)
    ]


def _entry(name: str, value: Any) -> Any:
    if name != "environment" or not isinstance(value, Mapping):
        return redacted(value)
    return {key: HIDDEN if is_secret_name(key) else inner for key, inner in value.items()}
