"""What does ``--set parallel.tp=4`` mean?"""

from __future__ import annotations

from typing import Any

from kitctl.errors import Exit, KitError
from kitctl.kit.yaml_reader import read_yaml


def read_setting(text: str) -> tuple[str, Any]:
    """``path=value`` as dotted path and typed value (YAML rules: ``4`` is a number, ``off`` stays text).

    Raises KitError ``bad-setting`` (exit 2).
    """
    path, equals, raw = text.partition("=")
    if not equals or not path or any(not step for step in path.split(".")):
        raise _bad(text, "it must read PATH=VALUE, with a dotted path of the stack file")
    try:
        tree = read_yaml(f"value: {raw}", source="--set")
    except KitError as broken:
        raise _bad(text, "the value is no YAML") from broken
    if set(tree) != {"value"}:
        raise _bad(text, "it must hold one value")
    return path, tree["value"]


def _bad(text: str, why: str) -> KitError:
    return KitError(
        "bad-setting",
        f"--set {text}: {why}",
        remedy="write for example --set parallel.tp=4",
        exit_code=Exit.USAGE,
    )
