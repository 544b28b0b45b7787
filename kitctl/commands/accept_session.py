"""Ask every prompt of a set and read the engine's own account of each answer."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import msgspec

from kitctl.bench.acceptance import Acceptance, acceptance_of, sample_of
from kitctl.bench.answers import Record, records_of
from kitctl.bench.counters import Counters, counted_between, read_counters
from kitctl.bench.failed import failed_kinds, failure_lines
from kitctl.bench.load import Load
from kitctl.bench.prompts import Prompt, PromptSet
from kitctl.bench.workload import PATHS, Endpoint, Spec, body_of, http_request
from kitctl.commands.server_choice import Server, answer_limit
from kitctl.edge.http_calls import metrics_text
from kitctl.edge.load_client import run_load
from kitctl.errors import Exit, KitError
from kitctl.result import Context

ANSWER_TOKENS = 512


def measure_acceptance(
    server: Server, dataset: PromptSet, args: argparse.Namespace, context: Context
) -> tuple[Acceptance, ...]:
    """All prompts at each concurrency.

    Raises KitError ``no-answer`` (exit 10) when none is answered, ``no-drafter`` (exit 9) when answers tell of no
    verify steps.
    """
    prompts = dataset.prompts[: args.prompts]
    spec = spec_of(server, dataset, args, tokens=answer_limit(server, args.output_tokens, most=ANSWER_TOKENS))
    endpoint, tried = _find_endpoint(server, spec, prompts[0], args.endpoint)
    spec = msgspec.structs.replace(spec, endpoint=endpoint)
    found = []
    for concurrency in args.concurrency:
        context.say(f"C={concurrency}: {len(prompts)} prompts by {PATHS[spec.endpoint]}")
        before = _counters(server)
        records = ask_all(server, spec, prompts, streams=concurrency)
        pairs = zip(records, prompts, strict=True)
        samples = [sample for record, prompt in pairs if (sample := sample_of(record, prompt)) is not None]
        if not samples:
            if not _answers_chat_alone(tried, records):
                require_an_answer(server, records)
            raise _no_drafter(server, records)
        kinds = failed_kinds(record.error for record in records)
        counted = _counter_length(before, _counters(server))
        found.append(acceptance_of(samples, concurrency=concurrency, error_kinds=kinds, counted=counted))
    return tuple(found)


def spec_of(server: Server, dataset: PromptSet, args: argparse.Namespace, *, tokens: int) -> Spec:
    """How each prompt is asked for ``tokens`` at most, by chat as long as no other endpoint is found."""
    return Spec(
        model=server.model,
        endpoint=Endpoint.CHAT,
        dataset=dataset.name,
        dataset_sha256=dataset.sha256,
        output_tokens=tokens,
        ignore_eos=args.ignore_eos,
        temperature=args.temperature,
        timeout_s=args.timeout_s,
    )


def ask_all(
    server: Server,
    spec: Spec,
    prompts: Sequence[Prompt],
    *,
    streams: int,
    extra: dict[str, object] | None = None,
) -> tuple[Record, ...]:
    """Every prompt once, ``streams`` at a time, each answer in one piece with the engine's account of it."""
    requests = tuple(
        http_request(server.target, PATHS[spec.endpoint], _whole_body(spec, prompt) | (extra or {}))
        for prompt in prompts
    )
    streams = min(streams, len(requests))
    load = Load(requests=requests, streams=streams, starts_s=(0.0,) * streams)
    return records_of(run_load(server.target, load, timeout_s=spec.timeout_s), server.target.api_key)


def _whole_body(spec: Spec, prompt: Prompt) -> dict[str, object]:
    body = body_of(spec, prompt, stream=False)
    return body | {"return_meta_info": True} if spec.endpoint is Endpoint.CHAT else body


def _find_endpoint(
    server: Server, spec: Spec, prompt: Prompt, wanted: tuple[Endpoint, ...] | None
) -> tuple[Endpoint, tuple[Record, ...]]:
    """Chat, which applies the model's template, when it gives ``meta_info``; else ``/generate`` with plain text.

    Also returns what chat answered, where ``/generate`` was chosen for it.
    """
    if wanted is not None and len(wanted) == 1:
        return wanted[0], ()
    short = msgspec.structs.replace(spec, output_tokens=16, ignore_eos=True)
    (record,) = ask_all(server, short, [prompt], streams=1)
    if (record.meta or {}).get("spec_verify_ct"):
        return Endpoint.CHAT, ()
    return Endpoint.GENERATE, (record,)


def _counters(server: Server) -> Counters | None:
    text = metrics_text(server.target)
    return read_counters(text) if text is not None else None


def _counter_length(before: Counters | None, after: Counters | None) -> float | None:
    if before is None or after is None:
        return None
    counted = counted_between(before, after)
    return (
        counted.generation_tokens / counted.verify_calls
        if counted.generation_tokens and counted.verify_calls
        else None
    )


def require_an_answer(server: Server, records: Sequence[Record]) -> None:
    """Raises KitError ``no-answer`` (exit 10) when every one of ``records`` failed."""
    if any(record.error is None for record in records):
        return
    raise KitError(
        "no-answer",
        f"{server.url} answered none of {len(records)} generation requests",
        evidence=failure_lines(records),
        remedy="check --url, --model and KITCTL_API_KEY against the server's own log",
        exit_code=Exit.UNREACHABLE,
    )


def _answers_chat_alone(tried: Sequence[Record], records: Sequence[Record]) -> bool:
    """Whether chat was answered and ``/generate`` is none of the server's paths: a server of another make."""
    refused = all((record.error or "").startswith("http-4") for record in records)
    return refused and any(record.error is None for record in tried)


def _no_drafter(server: Server, records: Sequence[Record]) -> KitError:
    seen = failure_lines(records) or ("meta_info holds no spec_verify_ct",)
    return KitError(
        "no-drafter",
        f"{server.url} answers without a drafter, so there is nothing to accept",
        evidence=seen,
        remedy="bring up a stack with a drafter (its name in 'kitctl stacks' shows one)",
        exit_code=Exit.GATE,
    )
