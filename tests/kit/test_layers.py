"""Layers are laid over one another key by key, and each value knows which file set it."""

from hypothesis import given
from hypothesis import strategies as st

from kitctl.kit.layers import Layer, merge_layers, tree_of_setting, value_at, without_path

LEAVES = st.one_of(st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=2), st.none())
KEYS = st.text("abc", min_size=1, max_size=2)
TREES = st.recursive(
    st.dictionaries(KEYS, LEAVES, max_size=3), lambda inner: st.dictionaries(KEYS, inner | LEAVES, max_size=3)
)


def test_later_layers_win_and_maps_are_merged() -> None:
    merged = merge_layers(
        [
            Layer(source="a", tree={"engine": {"x": 1, "y": [1, 2]}, "model": "m"}),
            Layer(source="b", tree={"engine": {"y": [3]}}),
        ]
    )
    assert merged.tree == {"engine": {"x": 1, "y": [3]}, "model": "m"}
    assert merged.origin == {"engine.x": "a", "engine.y": "b", "engine": "a", "model": "a"}


def test_a_map_over_a_value_and_a_value_over_a_map_replace_it() -> None:
    layers = [
        Layer(source="a", tree={"x": 1, "y": {"z": 2}}),
        Layer(source="b", tree={"x": {"k": 3}, "y": 4}),
    ]
    merged = merge_layers(layers)
    assert merged.tree == {"x": {"k": 3}, "y": 4}
    assert (merged.origin["x"], merged.origin["x.k"], merged.origin["y"]) == ("b", "b", "b")


def test_merging_changes_no_layer() -> None:
    below = {"engine": {"x": 1}}
    merge_layers([Layer(source="a", tree=below), Layer(source="b", tree={"engine": {"x": 2}})])
    assert below == {"engine": {"x": 1}}


@given(TREES)
def test_one_layer_merges_to_itself(tree: dict[str, object]) -> None:
    assert merge_layers([Layer(source="a", tree=tree)]).tree == tree


@given(TREES, TREES, TREES)
def test_laying_on_one_by_one_equals_laying_all(
    one: dict[str, object], two: dict[str, object], three: dict[str, object]
) -> None:
    def lay(*trees: dict[str, object]) -> dict[str, object]:
        return merge_layers([Layer(source="x", tree=tree) for tree in trees]).tree

    assert lay(lay(one, two), three) == lay(one, two, three)
    assert lay(one, one) == one


def test_a_setting_becomes_a_tree() -> None:
    assert tree_of_setting("parallel.tp", 4) == {"parallel": {"tp": 4}}
    assert tree_of_setting("model", "m") == {"model": "m"}


def test_value_at_a_path() -> None:
    tree = {"a": {"b": 0}, "c": None}
    assert [value_at(tree, path) for path in ("a.b", "a", "a.x", "c.d", "a.b.c")] == [
        0,
        {"b": 0},
        None,
        None,
        None,
    ]


def test_without_a_path() -> None:
    tree = {"a": {"b": 1, "c": 2}, "d": 3}
    assert without_path(tree, "a.b") == {"a": {"c": 2}, "d": 3}
    assert without_path(tree, "d") == {"a": {"b": 1, "c": 2}}
    assert without_path(tree, "d.e") == without_path(tree, "x.y") == tree
