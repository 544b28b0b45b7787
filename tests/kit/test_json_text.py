"""JSON of others: whatever cannot be read raises one kind of error, and each reader of users' files names the file."""

import json
from collections.abc import Callable

import msgspec
import pytest

from kitctl.bench.bench_serving import read_bench_serving
from kitctl.bench.prompts import read_prompt_set
from kitctl.bench.results import read_results
from kitctl.errors import Exit, KitError
from kitctl.host.facts_json import decode_facts
from kitctl.kit.config_section import read_config
from kitctl.kit.json_text import decode_json, parse_json

DEEP = {"list": "[" * 100_000, "object": '{"a":' * 100_000, "closed": "[" * 100_000 + "]" * 100_000}
GARBAGE = {**DEEP, "long number": "1" * 5000, "half": '{"a":', "empty": ""}


@pytest.mark.parametrize("text", GARBAGE.values(), ids=GARBAGE)
def test_what_cannot_be_read_is_no_json(text: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        parse_json(text)


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_what_is_too_deep_cannot_be_decoded(text: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_json(f'{{"one": {text}}}', dict)


def test_good_json_is_read_as_it_is() -> None:
    assert parse_json('{"a": [1, null]}') == {"a": [1, None]} == decode_json('{"a": [1, null]}', dict)


READERS: dict[str, Callable[[str], object]] = {
    "bad-facts": lambda text: decode_facts(text, source="the.json"),
    "bad-prompts": lambda text: read_prompt_set("the.json", text),
    "model-config": lambda text: read_config(text, source="the.json"),
    "bad-result": lambda text: read_results("the.json", text),
}


@pytest.mark.parametrize("text", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.parametrize("code", READERS)
def test_each_reader_names_a_file_that_it_cannot_read(code: str, text: str) -> None:
    with pytest.raises(KitError) as refused:
        READERS[code](text)
    assert (refused.value.code, refused.value.exit_code) == (code, Exit.USAGE)
    assert "the.json" in refused.value.cause


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_a_deep_line_of_bench_serving_is_refused(text: str) -> None:
    with pytest.raises(KitError) as refused:
        read_bench_serving("the.jsonl", text, allowed=())
    assert refused.value.code == "bad-result"
