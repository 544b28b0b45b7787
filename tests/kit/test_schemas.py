"""The published schemas are the kit's own types: what the kit accepts validates, and mistakes are refused by both."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kitctl.errors import KitError
from kitctl.kit.addon_images import read_addon_images
from kitctl.kit.campaign import read_campaign
from kitctl.kit.catalog import KitTexts, resolve_stack
from kitctl.kit.overlay import read_overlay
from kitctl.kit.schemas import SCHEMAS, schema_text
from kitctl.kit.yaml_reader import read_yaml

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "compose" / "schemas"
FOLDERS = {"stack": "stacks", "part": "parts", "overlay": "overlays", "campaign": "campaigns"}
FILES = [("addon-images", ROOT / "compose" / "addon-images.yaml")] + [
    (kind, path)
    for kind, name in FOLDERS.items()
    for path in sorted((ROOT / "compose" / name).glob("*.yaml"))
]
STACK = {"summary": "a", "model": "x/y", "image": {"stage": "cpu"}}
OVERLAY = {"services": {"engine": {"environment": {"A": "1"}}}, "x-kitctl": {"summary": "a"}}
IMAGES = {"haproxy": {"reference": "haproxy:3.0", "digest": "sha256:" + "a" * 64}}
CAMPAIGN = {"summary": "a", "stacks": ["tp8"], "loads": [{"concurrency": [1]}]}


def accepts(kind: str, tree: Any) -> bool:
    """Whether the schema takes the tree."""
    return bool(jsonschema.Draft202012Validator(SCHEMAS[kind]()).is_valid(tree))


def kit_accepts(kind: str, tree: Any) -> bool:
    """Whether kitctl reads the file."""
    text = yaml.safe_dump(tree)
    try:
        if kind == "stack":
            resolve_stack(KitTexts(kit={}, user={"stacks/s.yaml": text}), "s")
        elif kind == "overlay":
            read_overlay("o", read_yaml(text, source="o"), source="o", text=text)
        elif kind == "addon-images":
            read_addon_images(text, source="i")
        else:
            read_campaign(text, source="c")
    except KitError:
        return False
    return True


@pytest.mark.parametrize("kind", SCHEMAS)
def test_the_published_schema_is_the_kits(kind: str, accept: bool) -> None:
    path = PUBLISHED / f"{kind}.json"
    if accept:
        path.parent.mkdir(exist_ok=True)
        path.write_text(schema_text(kind))
    assert path.read_text() == schema_text(kind)
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))


@pytest.mark.parametrize(("kind", "path"), FILES, ids=lambda value: getattr(value, "stem", value))
def test_every_file_of_the_kit_validates(kind: str, path: Path) -> None:
    tree = read_yaml(path.read_text(), source=path.name)
    errors = [error.message for error in jsonschema.Draft202012Validator(SCHEMAS[kind]()).iter_errors(tree)]
    assert errors == []


@pytest.mark.parametrize(
    ("kind", "path"),
    [one for one in FILES if one[0] in ("stack", "part", "campaign")],
    ids=lambda v: getattr(v, "stem", v),
)
def test_the_kits_files_tell_editors_their_schema(kind: str, path: Path) -> None:
    assert path.read_text().splitlines()[0] == f"# yaml-language-server: $schema=../schemas/{kind}.json"


def put(*path: Any) -> Callable[[dict[str, Any]], None]:
    """Set a value: ``put("parallel", "tp", 0)``."""

    def change(tree: dict[str, Any]) -> None:
        *way, last, value = path
        for step in way:
            tree = tree.setdefault(step, {}) if isinstance(tree, dict) else tree[step]
        tree[last] = value

    return change


PLANTED: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
    ("stack", put("modl", "x/y")),
    ("stack", put("name", "s")),
    ("stack", put("parallel", "tp", 0)),
    ("stack", put("parallel", "tp", "8")),
    ("stack", put("parallel", "tpp", 8)),
    ("stack", put("engine", "mem_fraction_static", 1.5)),
    ("stack", put("engine", "graphs", "sometimes")),
    ("stack", put("engine", "graphs", False)),
    ("stack", put("engine", "flags", {"a": None})),
    ("stack", put("serve", "port", 70000)),
    ("stack", put("drafter", {"algorithm": "DFLASH"})),
    ("stack", put("drafter", {"model": "x/d", "algorithm": "MAGIC"})),
    ("stack", put("environment", {"A": None})),
    ("stack", put("environment", {"A": True})),
    ("stack", put("archs", "12.0")),
    ("stack", lambda tree: tree.pop("model")),
    ("stack", put("uses", "part")),
    ("overlay", put("x-kitctl", "sumary", "a")),
    ("overlay", lambda tree: tree.pop("x-kitctl")),
    ("overlay", lambda tree: tree["x-kitctl"].pop("summary")),
    ("overlay", put("x-kitctl", "reservations", "some")),
    ("overlay", put("x-kitctl", "p2p_level", {"within_numa": "5", "across_numa": "SYS"})),
    ("overlay", put("services", "engine", "command", ["x"])),
    ("overlay", put("services", "engine", "volumes", [])),
    ("overlay", put("services", "engine", "environment", {"A": "$HOME"})),
    ("overlay", put("services", "engine", "environment", {"A": None})),
    ("overlay", put("services", "engine", "environment", {"A": True})),
    ("overlay", put("services", "engine", "environment", ["A=1"])),
    ("addon-images", put("haproxy", "haproxy:3.0")),
    ("addon-images", put("haproxy", "digest", "sha256:abc")),
    ("addon-images", put("haproxy", "tag", "3.0")),
    ("addon-images", lambda tree: tree["haproxy"].pop("reference")),
    ("campaign", put("stacks", [])),
    ("campaign", put("repeats", 0)),
    ("campaign", put("loads", [])),
    ("campaign", put("loads", [{"concurrency": []}])),
    ("campaign", put("failure", {"then": "pray"})),
    ("campaign", put("budjet", {})),
]  # fmt: skip
OF_SERVICES = ("images", "publish")
"""Settings that must agree with the services of the same file, which no schema tells."""
SOUND = {"stack": STACK, "overlay": OVERLAY, "campaign": CAMPAIGN, "addon-images": IMAGES}


@pytest.mark.parametrize("kind", SOUND)
def test_the_sound_files_are_sound(kind: str) -> None:
    assert (accepts(kind, SOUND[kind]), kit_accepts(kind, SOUND[kind])) == (True, True)


@pytest.mark.parametrize("number", range(len(PLANTED)), ids=lambda number: f"{PLANTED[number][0]}-{number}")
def test_a_planted_mistake_is_refused_by_both(number: int) -> None:
    kind, change = PLANTED[number]
    tree = copy.deepcopy(SOUND[kind])
    change(tree)
    assert (accepts(kind, tree), kit_accepts(kind, tree)) == (False, False)


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 70000),
    st.floats(-2, 2, width=16).filter(lambda number: not number.is_integer()),
    st.sampled_from(["on", "off", "decode", "DFLASH", "cpu", "x/y", "1", "$A", "$$", ""]),
    st.lists(st.sampled_from(["12.0", 3, None]), max_size=2), st.just({}), st.just({"a": 1}), st.just({"a": "b"}),
)  # fmt: skip


def paths_of(kind: str) -> list[tuple[str, ...]]:
    """Dotted paths of all settings that the schema names, two levels deep."""
    schema = SCHEMAS[kind]()
    if kind == "addon-images":
        return [("haproxy",), ("haproxy", "reference"), ("haproxy", "digest")]
    if kind == "overlay":
        block = schema["$defs"]["OverlayBlock"]["properties"]
        return [*(("x-kitctl", key) for key in block), ("services", "engine", "environment"), ("services",)]
    root = schema["$defs"][kind.capitalize()]["properties"]
    found: list[tuple[str, ...]] = [(key,) for key in root if key != "uses"]
    for key, value in root.items():
        inner = schema["$defs"].get(str(value.get("$ref", "")).rpartition("/")[2], {})
        found += [(key, name) for name in inner.get("properties", {})]
    return found


@pytest.mark.parametrize("kind", SOUND)
@settings(max_examples=400)
@given(data=st.data())
def test_both_judge_alike(kind: str, data: st.DataObject) -> None:
    """Any value at any setting: the schema takes it when kitctl does, and only then but for what one setting alone
    cannot tell."""
    tree = copy.deepcopy(SOUND[kind])
    *way, last = data.draw(st.sampled_from(paths_of(kind)))
    put(*way, last, data.draw(VALUES))(tree)
    if last in OF_SERVICES:
        assert accepts(kind, tree) or not kit_accepts(kind, tree), tree
    else:
        assert accepts(kind, tree) == kit_accepts(kind, tree), tree
