"""Turn YAML text into a tree of string keys, or say where in the file it is broken."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from typing import Any

import yaml

from kitctl.errors import Exit, KitError

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser is ten times as fast


class _StrictLoader(_Loader):  # type: ignore[misc]  # which of the two is known at run time alone
    """SafeLoader that refuses a key given twice and reads only ``true`` and ``false`` as booleans.

    YAML 1.1 would let the second key win without a word, and turn ``graphs: off`` into ``False``.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012  # PyYAML's own class attribute
        first: [(tag, pattern) for tag, pattern in pairs if tag != "tag:yaml.org,2002:bool"]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _strict_map(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable):
            raise yaml.MarkedYAMLError(problem="a key must be text", problem_mark=key_node.start_mark)
        if key in seen:
            raise yaml.MarkedYAMLError(
                problem=f"the key {key!r} stands twice", problem_mark=key_node.start_mark
            )
        seen.add(key)
    made: dict[Any, Any] = loader.construct_mapping(node, deep=True)
    return made


_StrictLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), list("tf"))
_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _strict_map)


def read_yaml(text: str, *, source: str) -> dict[str, Any]:
    """The mapping that ``text`` holds (empty text gives an empty one).

    Raises KitError ``bad-yaml`` (exit 2) naming ``source`` and the line when it is no YAML mapping.
    """
    try:
        tree = yaml.load(text, Loader=_StrictLoader)
    except yaml.YAMLError as broken:
        raise _bad_yaml(source, _where(broken)) from broken
    except (ValueError, RecursionError) as broken:
        raise _bad_yaml(source, f"a value cannot be read: {broken}") from broken
    if tree is None:
        return {}
    if not isinstance(tree, Mapping) or not all(isinstance(key, str) for key in tree):
        raise _bad_yaml(source, "the file must hold a mapping with text keys")
    return dict(tree)


def read_yaml_documents(text: str, *, source: str) -> tuple[dict[str, Any], ...]:
    """The mappings of a file that may hold several documents; empty ones are left out.

    Raises KitError ``bad-yaml`` (exit 2) naming ``source`` and the line when one is no YAML mapping.
    """
    parts = re.split(r"(?m)^---(?:[ \t].*)?$", text)
    trees = (read_yaml(_kept_lines(parts, place), source=source) for place in range(len(parts)))
    return tuple(tree for tree in trees if tree)


def _kept_lines(parts: list[str], place: int) -> str:
    """A part with an empty line for each line before it, so that errors name lines of the whole file."""
    before = sum(part.count("\n") for part in parts[:place])
    return "\n" * before + parts[place]


def _where(broken: yaml.YAMLError) -> str:
    if isinstance(broken, yaml.MarkedYAMLError) and broken.problem_mark is not None:
        mark = broken.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {broken.problem}"
    if isinstance(broken, yaml.reader.ReaderError):
        return f"position {broken.position}: {broken.reason}"
    return " ".join(str(broken).split())


def _bad_yaml(source: str, what: str) -> KitError:
    return KitError(
        "bad-yaml",
        f"{source} is not readable as YAML: {what}",
        remedy=f"mend {source} at that place",
        exit_code=Exit.USAGE,
    )
