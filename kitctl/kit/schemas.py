"""The JSON Schemas of the files that users write, made from the very types that read them.

A stack file may leave to its parts whatever they say, and what it leaves out nobody can judge from the file alone, so
only a stack that uses no parts must name its model; ``kitctl plan`` judges the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kitctl.kit.addon_images import AddonImage
from kitctl.kit.campaign import campaign_schema
from kitctl.kit.overlay import FORBIDDEN_KEYS, OverlayBlock
from kitctl.kit.stack import Stack

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NO_VARIABLE = r"^([^$]|\$\$)*$"


def stack_file_schema() -> Schema:
    """A stack, as ``compose/stacks/NAME.yaml`` holds it: named by its file, with the parts that it uses."""
    schema = _layer_schema("A stack: one named serving configuration")
    uses = {
        "type": "array",
        "items": {"type": "string"},
        "description": "Parts that it shares with other stacks",
    }
    root = schema["$defs"]["Stack"]
    root["properties"] = {"uses": uses, **root["properties"]}
    root["anyOf"] = [{"required": ["uses"]}, {"required": ["summary", "model"]}]
    root["if"] = {"not": {"required": ["uses"]}}
    root["then"] = {"properties": {"drafter": {"anyOf": [{"required": ["model"]}, {"type": "null"}]}}}
    return schema


def part_file_schema() -> Schema:
    """A part, as ``compose/parts/NAME.yaml`` holds it: settings that several stacks share."""
    return _layer_schema("A part: settings that stacks share")


def overlay_file_schema() -> Schema:
    """An overlay, as ``compose/overlays/NAME.yaml`` holds it: a compose file with a block for kitctl."""
    block = _plain(msgspec.json.schema(OverlayBlock))
    scalar = {"anyOf": [{"type": "string", "pattern": _NO_VARIABLE}, {"type": "number"}]}
    forbidden = {
        key: {"not": {}, "description": "Stands in the rendered stack alone: compose merges it wrongly"}
        for key in FORBIDDEN_KEYS
    }
    engine = {
        "type": ["object", "null"],
        "properties": {
            "environment": {"type": ["object", "null"], "additionalProperties": scalar},
            "ulimits": {"type": ["object", "null"]},
            **forbidden,
        },
    }
    services = {"type": ["object", "null"], "properties": {"engine": engine}}
    return {
        "$schema": DIALECT,
        "title": "An overlay: all that differs on one kind of host, or an add-on",
        "type": "object",
        "properties": {"services": services, "x-kitctl": {"$ref": "#/$defs/OverlayBlock"}},
        "required": ["x-kitctl"],
        "$defs": block["$defs"],
    }


def addon_images_schema() -> Schema:
    """``addon-images.yaml``: the images of add-ons by name."""
    schema = _plain(msgspec.json.schema(dict[str, AddonImage]))
    digest = schema["$defs"]["AddonImage"]["properties"]["digest"]
    digest["anyOf"] = [{"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}, {"type": "null"}]
    return {"$schema": DIALECT, "title": "The images of add-ons by name", **schema}


def campaign_file_schema() -> Schema:
    """A campaign file."""
    schema = {"$schema": DIALECT, **_plain(campaign_schema())}
    schema["$defs"]["Campaign"]["properties"]["stacks"]["uniqueItems"] = True
    return schema


SCHEMAS: Mapping[str, Callable[[], Schema]] = {
    "addon-images": addon_images_schema,
    "campaign": campaign_file_schema,
    "overlay": overlay_file_schema,
    "part": part_file_schema,
    "stack": stack_file_schema,
}


def schema_text(kind: str) -> str:
    """The schema as JSON text, with a line's end."""
    return msgspec.json.format(msgspec.json.encode(SCHEMAS[kind]()), indent=1).decode() + "\n"


def _layer_schema(title: str) -> Schema:
    """A layer of a stack: every setting, none required, and no name, since its file gives that."""
    schema = {"$schema": DIALECT, "title": title, **_plain(msgspec.json.schema(Stack))}
    for definition in schema["$defs"].values():
        definition.pop("required", None)
    root = schema["$defs"]["Stack"]
    del root["properties"]["name"]
    number = {"anyOf": [{"type": "string"}, {"type": "number"}]}
    root["properties"]["environment"] = {"type": "object", "additionalProperties": number}
    return schema


def _plain(schema: Any) -> Any:
    """The schema without the defaults of whole objects, which say the same as those of their fields."""
    if isinstance(schema, dict):
        kept = {k: v for k, v in schema.items() if not (k == "default" and isinstance(v, dict | list))}
        return {key: _plain(value) for key, value in kept.items()}
    return [_plain(one) for one in schema] if isinstance(schema, list) else schema
