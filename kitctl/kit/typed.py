"""Turn a tree into a frozen type, or say which file and field is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import EnumType
from typing import Any, TypeVar

import msgspec

from kitctl.errors import Exit, KitError
from kitctl.kit.near import did_you_mean

T = TypeVar("T")
_PATH = re.compile(r" - at (?:`key` in )?`\$\.?(?P<path>[^`]*)`")
_ENUM = re.compile(r"Invalid enum value '(?P<value>[^']*)'")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>[^`]+)`")


def read_typed(
    tree: Mapping[str, Any], kind: type[T], *, source_of: Callable[[str], str], code: str = "bad-file"
) -> T:
    """``tree`` as ``kind``, checked strictly.

    ``source_of`` names the file that set a dotted path. Raises KitError ``code`` (exit 2) with file, field
    path and, for an unknown key, the nearest known one.
    """
    try:
        return msgspec.convert(tree, kind, strict=True)
    except msgspec.ValidationError as wrong:
        raise _bad_field(str(wrong), kind, source_of, code) from wrong


def _bad_field(message: str, kind: type[Any], source_of: Callable[[str], str], code: str) -> KitError:
    found = _PATH.search(message)
    path = found["path"] if found else ""
    problem = _PATH.sub("", message)
    unknown = _UNKNOWN.search(message)
    hint = ""
    if unknown:
        place = f"{path}.{unknown['field']}".lstrip(".")
        known = [field.encode_name for field in _fields_at(kind, path)]
        problem, hint, path = "unknown key", did_you_mean(unknown["field"], known), place
    choice = _ENUM.search(message)
    if choice:
        hint = did_you_mean(choice["value"], _choices_at(kind, path))
    where = f"{source_of(path)}: {path}" if path else source_of(path)
    return KitError(
        code,
        f"{where}: {problem}",
        evidence=(hint,) if hint else (),
        remedy=f"mend {path or 'the file'} in {source_of(path)}",
        exit_code=Exit.USAGE,
    )


def _fields_at(kind: type[Any], path: str) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The fields of the struct that lies at ``path`` below ``kind``."""
    for step in [part for part in path.replace("[...]", "").split(".") if part]:
        field = next(f for f in msgspec.structs.fields(kind) if f.encode_name == step.split("[")[0])
        kind = _struct_in(field.type)
    return msgspec.structs.fields(kind)


def _choices_at(kind: type[Any], path: str) -> list[str]:
    """The values that the closed set at ``path`` has."""
    parent, _, name = path.rpartition(".")
    field = next(f for f in _fields_at(kind, parent) if f.encode_name == name)
    options = getattr(field.type, "__args__", (field.type,))
    enums: list[Any] = [option for option in options if isinstance(option, EnumType)]
    return [str(member) for enum in enums for member in enum]


def _struct_in(annotation: Any) -> type[Any]:
    """The struct type inside ``X``, ``X | None``, ``tuple[X, ...]`` or ``dict[str, X]``."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation
    inner = [arg for arg in getattr(annotation, "__args__", ()) if arg is not type(None)]
    return next(found for found in map(_struct_in, inner) if found is not object) if inner else object
