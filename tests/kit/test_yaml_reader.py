"""YAML is read strictly: no key twice, only true and false are booleans, and the place of a fault is told."""

import pytest

from kitctl.errors import Exit, KitError
from kitctl.kit.yaml_reader import read_yaml


def test_a_mapping_is_read_with_yaml_types() -> None:
    text = "a: 1\nb: [x, 2.5]\nc: {d: true}\ne: null\nf: '7'\n"
    assert read_yaml(text, source="x") == {"a": 1, "b": ["x", 2.5], "c": {"d": True}, "e": None, "f": "7"}


@pytest.mark.parametrize("word", ["on", "off", "yes", "no", "On", "OFF", "y", "n", "True", "FALSE"])
def test_words_stay_words(word: str) -> None:
    assert read_yaml(f"graphs: {word}", source="x") == {"graphs": word}


def test_empty_text_is_an_empty_mapping() -> None:
    assert read_yaml("", source="x") == read_yaml("# only words\n", source="x") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\na: 2\n", "line 2, column 1: the key 'a' stands twice"),
        ("x:\n  a: 1\n  a: 2\n", "line 3, column 3: the key 'a' stands twice"),
        ("- 1\n- 2\n", "the file must hold a mapping with text keys"),
        ("just words", "the file must hold a mapping with text keys"),
        ("1: a\n", "the file must hold a mapping with text keys"),
        ("a: [1\n", "line 2, column 1: did not find expected ',' or ']'"),
        ("a: b: c\n", "line 1, column 5: mapping values are not allowed in this context"),
        ("a: !!python/object:os.system x\n", "line 1, column 4: could not determine a constructor for the tag "
         "'tag:yaml.org,2002:python/object:os.system'"),
        ("? [a]\n: 1\n", "line 1, column 3: a key must be text"),
        ("a: \x07\n", "position 3: control characters are not allowed"),
        ("a: 2026-13-45\n", "a value cannot be read: month must be in 1..12"),
    ],
)  # fmt: skip
def test_broken_text_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(KitError) as refused:
        read_yaml(text, source="x.yaml")
    assert refused.value.cause == f"x.yaml is not readable as YAML: {said}"
    assert (refused.value.code, refused.value.exit_code) == ("bad-yaml", Exit.USAGE)
    assert refused.value.remedy == "mend x.yaml at that place"


def test_bottomless_nesting_is_refused() -> None:
    with pytest.raises(KitError) as refused:
        read_yaml("a: " + "[" * 5000, source="x.yaml")
    said = "line 1, column 1003: exceeded maximum nesting depth"
    assert refused.value.cause == f"x.yaml is not readable as YAML: {said}"
