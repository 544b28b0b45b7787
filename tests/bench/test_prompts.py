"""Prompt sets are read in every shape, and no two points share prompts."""

import random
from importlib.resources import files

import pytest

from kitctl.bench.prompts import deal, random_ids, read_prompt_set, seed_of, words_of
from kitctl.errors import KitError

KIT = files("kitctl.data").joinpath("prompts/kit.jsonl").read_text(encoding="utf-8")


def test_the_kits_own_set() -> None:
    found = read_prompt_set("kit", KIT)
    counts = {
        name: sum(p.category == name for p in found.prompts)
        for name in ("code", "maths", "chat", "extraction")
    }
    assert counts == {"code": 12, "maths": 12, "chat": 12, "extraction": 12}
    assert len(found.sha256) == 64
    assert len(words_of(found.prompts)) > 300


def test_the_demo_set_is_asked_as_it_is() -> None:
    text = files("kitctl.data").joinpath("prompts/demo.jsonl").read_text(encoding="utf-8")
    found = read_prompt_set("demo", text).prompts
    assert {p.category for p in found} == {"sums", "differences", "brackets", "repeat", "reverse", "facts"}
    assert (len(found), len({p.id for p in found}), {p.as_is for p in found}) == (36, 36, {True})
    dealt = deal(random.Random(1), found, count=80)
    assert all(prompt in found for prompt in dealt)


def test_shapes() -> None:
    lines = (
        '{"prompt": "a", "max_tokens": 5}\n\n'
        '{"messages": [{"role": "user", "content": "b"}], "id": "x"}\n{"text": "c"}'
    )
    found = read_prompt_set("f", lines)
    assert [prompt.messages[0]["content"] for prompt in found.prompts if prompt.messages] == ["a", "b", "c"]
    assert [(prompt.id, prompt.max_tokens) for prompt in found.prompts] == [
        ("1", 5),
        ("x", None),
        ("3", None),
    ]


def test_sharegpt() -> None:
    text = '[{"id": "s1", "conversations": [{"from": "system", "value": "x"}, {"from": "human", "value": "hello"}]}]'
    (prompt,) = read_prompt_set("f", text).prompts
    assert (prompt.id, prompt.messages) == ("s1", ({"role": "user", "content": "hello"},))


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "f is not a prompt set: it holds no prompt"),
        ('{"prompt": "a"}\n{oops', "f is not a prompt set: line 2: "),
        (
            '{"question": "a"}',
            "f is not a prompt set: entry 1 has none of prompt, messages, text, conversations",
        ),
        ('{"prompt": "a", "match": "nearly"}', "f is not a prompt set: entry 1: Invalid enum value 'nearly'"),
        ('{"prompt": "a", "max_tokens": "many"}', "f is not a prompt set: entry 1: Expected `int | null`"),
    ],
)
def test_bad_sets_name_the_line(text: str, cause: str) -> None:
    with pytest.raises(KitError) as failed:
        read_prompt_set("f", text)
    assert failed.value.cause.startswith(cause)


def test_points_share_no_prompt() -> None:
    one, two = (
        random_ids(random.Random(seed_of("run", 8, n)), count=64, tokens=32, low=1, high=999) for n in (0, 1)
    )
    assert {p.ids for p in one} & {p.ids for p in two} == set()
    assert all(p.ids is not None and len(p.ids) == 32 for p in one)
    assert random_ids(random.Random(seed_of("run", 8, 0)), count=64, tokens=32, low=1, high=999) == one


def test_dealt_prompts_recur_under_another_number() -> None:
    prompts = read_prompt_set("kit", KIT).prompts
    dealt = deal(random.Random(1), prompts, count=100)
    texts = [prompt.messages[0]["content"] for prompt in dealt if prompt.messages]
    assert len(set(texts)) == 100
    assert len({text[:17] for text in texts}) == 100
    assert all(text.startswith("Case ") for text in texts)
