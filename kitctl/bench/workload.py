"""What exactly is asked of the server? The settings of a sweep, and prompts turned into HTTP requests."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from kitctl.bench.load import Load, Target
from kitctl.bench.points import Goal
from kitctl.bench.prompts import Prompt, PromptSet, deal, random_ids, random_words, seed_of, words_of

LEAST_REQUESTS = 5
WARM_UP_TOKENS = 16


class Endpoint(StrEnum):
    """Where requests go: OpenAI completions (token ids), OpenAI chat, or SGLang's own ``/generate``."""

    COMPLETIONS = "completions"
    CHAT = "chat"
    GENERATE = "generate"


PATHS = {
    Endpoint.COMPLETIONS: "/v1/completions",
    Endpoint.CHAT: "/v1/chat/completions",
    Endpoint.GENERATE: "/generate",
}


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """A sweep's settings, as far as figures depend on them. ``ramp_s`` ``None``: one request's length."""

    model: str
    endpoint: Endpoint
    dataset: str
    dataset_sha256: str | None = None
    input_tokens: int | None = 128
    output_tokens: int = 128
    ignore_eos: bool = True
    temperature: float = 0.0
    requests_per_stream: int = 5
    repeats: int = 3
    token_low: int = 1000
    token_high: int = 4000
    ramp_s: float | None = None
    timeout_s: float = 600.0
    flush: bool = True
    goal: Goal | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One repeat of one point. ``request_rate``: requests a second of an open loop; else ``concurrency`` streams."""

    concurrency: int | None = None
    request_rate: float | None = None
    repeat: int = 0

    @property
    def name(self) -> str:
        """``C=8`` or ``2.5 req/s``."""
        return f"C={self.concurrency}" if self.concurrency is not None else f"{self.request_rate:g} req/s"


def spec_hash(spec: Spec) -> str:
    """Twelve hex digits that two sweeps share when their settings are the same."""
    return hashlib.sha256(msgspec.json.encode(spec)).hexdigest()[:12]


def rotate(concurrencies: Sequence[int], rates: Sequence[float], repeats: int) -> tuple[Step, ...]:
    """All repeats of all points; each round begins with another point, so that drift hits no point alone."""
    points = [Step(concurrency=c) for c in concurrencies] + [Step(request_rate=rate) for rate in rates]
    steps: list[Step] = []
    for repeat in range(repeats):
        at = repeat % len(points)
        steps.extend(msgspec.structs.replace(step, repeat=repeat) for step in points[at:] + points[:at])
    return tuple(steps)


def prompts_for(spec: Spec, dataset: PromptSet, *, seed: int, count: int) -> tuple[Prompt, ...]:
    """New prompts for one repeat: random ids or words (``dataset`` lends its words), or the set's own, numbered."""
    rng = random.Random(seed)
    if spec.dataset != "random":
        return deal(rng, dataset.prompts, count=count)
    tokens = spec.input_tokens or 1
    if spec.endpoint is Endpoint.CHAT:
        return random_words(rng, words_of(dataset.prompts), count=count, tokens=tokens)
    return random_ids(rng, count=count, tokens=tokens, low=spec.token_low, high=spec.token_high)


def count_for(spec: Spec, step: Step) -> int:
    """Requests of one repeat: five a stream by default, of which three or more lie in the steady window."""
    if step.concurrency is not None:
        return max(LEAST_REQUESTS, step.concurrency * spec.requests_per_stream)
    return max(LEAST_REQUESTS, round((step.request_rate or 0.0) * 10 * spec.requests_per_stream))


def load_for(spec: Spec, step: Step, target: Target, dataset: PromptSet, *, seed: int, ramp_s: float) -> Load:
    """One repeat as a load: closed loop with starts spread over ``ramp_s``, or Poisson arrivals."""
    count = count_for(spec, step)
    prompts = prompts_for(spec, dataset, seed=seed, count=count)
    requests = tuple(request_bytes(spec, target, prompt) for prompt in prompts)
    if step.concurrency is not None:
        starts = tuple(ramp_s * number / step.concurrency for number in range(step.concurrency))
        return Load(requests=requests, streams=step.concurrency, starts_s=starts)
    arrivals = poisson(random.Random(seed_of(seed, "arrivals")), count, step.request_rate or 1.0)
    return Load(requests=requests, streams=min(64, count), starts_s=arrivals, open_loop=True)


def warm_up_for(spec: Spec, step: Step, target: Target, dataset: PromptSet, *, seed: int) -> Load:
    """One short request a stream, all at once: the batch shape is compiled and captured before it is measured."""
    streams = step.concurrency or 8
    short = msgspec.structs.replace(spec, output_tokens=min(spec.output_tokens, WARM_UP_TOKENS))
    prompts = prompts_for(spec, dataset, seed=seed, count=streams)
    requests = tuple(request_bytes(short, target, prompt) for prompt in prompts)
    return Load(requests=requests, streams=streams, starts_s=(0.0,) * streams)


def poisson(rng: random.Random, count: int, rate: float) -> tuple[float, ...]:
    """Arrival times of ``count`` requests at ``rate`` a second, the first at 0."""
    times = [0.0]
    while len(times) < count:
        times.append(times[-1] + rng.expovariate(rate))
    return tuple(times)


def request_bytes(spec: Spec, target: Target, prompt: Prompt) -> bytes:
    """A prompt as a streaming HTTP request."""
    body = body_of(spec, prompt)
    return http_request(target, PATHS[spec.endpoint], body)


def body_of(spec: Spec, prompt: Prompt, *, stream: bool = True) -> dict[str, Any]:
    """A prompt as the JSON body of its endpoint."""
    wanted = min(prompt.max_tokens or spec.output_tokens, spec.output_tokens)
    if spec.endpoint is Endpoint.GENERATE:
        sampling = {"temperature": spec.temperature, "max_new_tokens": wanted, "ignore_eos": spec.ignore_eos}
        text = {"input_ids": prompt.ids} if prompt.ids is not None else {"text": plain_text(prompt)}
        return {**text, "sampling_params": sampling, "stream": stream}
    if spec.endpoint is Endpoint.CHAT:
        asked: dict[str, Any] = {
            "messages": prompt.messages or [{"role": "user", "content": prompt.text or ""}]
        }
    else:
        asked = {"prompt": prompt.ids if prompt.ids is not None else plain_text(prompt)}
    asked = {"model": spec.model, **asked, "max_tokens": wanted, "temperature": spec.temperature}
    if spec.ignore_eos:
        asked["ignore_eos"] = True
    if stream:
        options = {"include_usage": True, "continuous_usage_stats": True}
        asked |= {"stream": True, "stream_options": options}
    return asked


def plain_text(prompt: Prompt) -> str:
    """The prompt without a chat template."""
    if prompt.text is not None:
        return prompt.text
    return "\n\n".join(message["content"] for message in prompt.messages or ())


def http_request(target: Target, path: str, body: dict[str, Any]) -> bytes:
    """A POST with a JSON body as bytes."""
    payload = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    lines = [
        f"POST {target.path}{path} HTTP/1.1",
        f"Host: {target.address}",
        "Content-Type: application/json",
        "Accept: text/event-stream, application/json",
        f"Content-Length: {len(payload)}",
    ]
    if target.api_key:
        lines.append(f"Authorization: Bearer {target.api_key}")
    return "\r\n".join([*lines, "", ""]).encode() + payload
