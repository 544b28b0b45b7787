"""How do host facts travel as JSON, and what is wrong with a facts file?"""

from __future__ import annotations

from typing import Any

import msgspec

from kitctl.errors import Exit, KitError
from kitctl.host.facts import HostFacts
from kitctl.kit.json_text import parse_json
from kitctl.kit.typed import read_typed


def encode_facts(facts: HostFacts) -> dict[str, Any]:
    """The facts as the JSON object that ``kitctl doctor --json`` prints under ``facts``."""
    plain = msgspec.to_builtins(facts)
    assert isinstance(plain, dict)
    return plain


def decode_facts(text: str, *, source: str) -> HostFacts:
    """The facts in ``text``: either bare, or the whole output of ``kitctl doctor --json``.

    Raises KitError ``bad-facts`` (exit 2) naming ``source`` and the field.
    """
    try:
        tree = parse_json(text)
    except ValueError as broken:
        raise _bad(source, f"it is no JSON: {broken}") from broken
    inner = tree.get("facts", tree) if isinstance(tree, dict) else tree
    if not isinstance(inner, dict):
        raise _bad(source, "it is no JSON object")
    return read_typed(inner, HostFacts, source_of=lambda _: source, code="bad-facts")


def _bad(source: str, what: str) -> KitError:
    return KitError(
        "bad-facts",
        f"{source} holds no facts of a host",
        evidence=(what,),
        remedy="write the file anew on that host: kitctl doctor --json > facts.json",
        exit_code=Exit.USAGE,
    )
