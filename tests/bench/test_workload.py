"""What is sent is what was asked for; points are rotated; arrivals are Poisson."""

import json
import random

import pytest

from kitctl.bench.load import Target
from kitctl.bench.prompts import Prompt, PromptSet
from kitctl.bench.workload import (
    Endpoint,
    Spec,
    Step,
    body_of,
    count_for,
    http_request,
    load_for,
    poisson,
    rotate,
    spec_hash,
)

SET = PromptSet(
    name="kit", sha256="0", prompts=(Prompt(id="1", messages=({"role": "user", "content": "hi"},)),)
)
TARGET = Target(host="h", port=1, api_key="sk")


def spec(endpoint: Endpoint = Endpoint.COMPLETIONS, dataset: str = "random") -> Spec:
    return Spec(model="m", endpoint=endpoint, dataset=dataset)


def test_rotation_begins_each_round_with_another_point() -> None:
    steps = rotate((1, 8, 32), (), 3)
    assert [(step.concurrency, step.repeat) for step in steps] == [
        (1, 0), (8, 0), (32, 0), (8, 1), (32, 1), (1, 1), (32, 2), (1, 2), (8, 2),
    ]  # fmt: skip


def test_completions_ask_for_usage_in_every_chunk() -> None:
    assert body_of(spec(), Prompt(id="1", ids=(5, 6))) == {
        "model": "m", "prompt": (5, 6), "max_tokens": 128, "temperature": 0.0, "ignore_eos": True, "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }  # fmt: skip


def test_generate_and_chat() -> None:
    generate = body_of(spec(Endpoint.GENERATE), Prompt(id="1", ids=(5,)), stream=False)
    assert generate == {
        "input_ids": (5,), "stream": False,
        "sampling_params": {"temperature": 0.0, "max_new_tokens": 128, "ignore_eos": True},
    }  # fmt: skip
    chat = body_of(spec(Endpoint.CHAT), SET.prompts[0], stream=False)
    assert chat["messages"] == ({"role": "user", "content": "hi"},)


def test_request_bytes() -> None:
    head, _, body = http_request(TARGET, "/v1/x", {"a": "ä"}).partition(b"\r\n\r\n")
    assert json.loads(body) == {"a": "ä"}
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /v1/x HTTP/1.1"
    assert f"Content-Length: {len(body)}" in lines and "Authorization: Bearer sk" in lines


@pytest.mark.parametrize(("concurrency", "count"), [(1, 5), (8, 40), (256, 1280)])
def test_five_requests_a_stream(concurrency: int, count: int) -> None:
    assert count_for(spec(), Step(concurrency=concurrency)) == count


def test_starts_are_spread_over_the_ramp() -> None:
    load = load_for(spec(), Step(concurrency=4), TARGET, SET, seed=1, ramp_s=2.0)
    assert (load.starts_s, load.streams, len(load.requests)) == ((0.0, 0.5, 1.0, 1.5), 4, 20)
    assert len(set(load.requests)) == 20


def test_poisson_arrivals() -> None:
    times = poisson(random.Random(1), 4000, 20.0)
    assert times[0] == 0
    assert times[-1] == pytest.approx(200, rel=0.05)


def test_hash_follows_the_settings() -> None:
    assert spec_hash(spec()) == spec_hash(spec())
    assert spec_hash(spec()) != spec_hash(spec(Endpoint.CHAT))
