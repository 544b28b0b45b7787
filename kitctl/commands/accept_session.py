"""Ask every prompt of a set and read the engine's own account of each answer."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kitctl.bench.acceptance import Acceptance, acceptance_of, sample_of
from kitctl.bench.answers import Record, records_of
from kitctl.bench.counters import Counters, counted_between, read_counters
from kitctl.bench.failed import failed_kinds, failure_lines
from kitctl.bench.load import Load
from kitctl.bench.parity import Parity, judge_parity
from kitctl.bench.prompts import Prompt, PromptSet
from kitctl.bench.results import read_result
from kitctl.bench.speedup import SpeedModel, fit_speedup, predict_from_plain
from kitctl.bench.workload import PATHS, Endpoint, Spec, body_of, http_request
from kitctl.commands.server_choice import Server
from kitctl.edge.files import read_text
from kitctl.edge.http_calls import metrics_text
from kitctl.edge.load_client import run_load
from kitctl.errors import Exit, KitError
from kitctl.result import Context

PARITY_PROMPTS = 50
PARITY_TOKENS = 256
PARITY_BATCH = 8
CANDIDATES = 5


def measure_acceptance(
    server: Server, dataset: PromptSet, args: argparse.Namespace, context: Context
) -> tuple[Acceptance, ...]:
    """All prompts at each concurrency.

    Raises KitError ``no-answer`` (exit 10) when none is answered, ``no-drafter`` (exit 9) when answers tell of no
    verify steps.
    """
    prompts = dataset.prompts[: args.prompts]
    spec = _spec(server, dataset, args)
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


def _spec(server: Server, dataset: PromptSet, args: argparse.Namespace) -> Spec:
    return Spec(
        model=server.model,
        endpoint=Endpoint.CHAT,
        dataset=dataset.name,
        dataset_sha256=dataset.sha256,
        output_tokens=args.output_tokens,
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


@dataclass(frozen=True, kw_only=True)
class PlainAnswers:
    """Greedy answers without a drafter, each with its candidates: one at a time, and the same again in a batch."""

    prompts: tuple[str, ...]
    alone: tuple[Record, ...]
    again: tuple[Record, ...]


def measure_parity(
    server: Server, plain: Server, dataset: PromptSet, args: argparse.Namespace, context: Context
) -> Parity:
    """Greedy answers of both servers to the same prompts, one at a time, and the plain one's again in a batch."""
    return compare_answers(server, take_answers(plain, dataset, args, context), dataset, args, context)


def take_answers(
    plain: Server, dataset: PromptSet, args: argparse.Namespace, context: Context
) -> PlainAnswers:
    """What the server without drafter answers. Raises KitError ``parity-failed`` (exit 10)."""
    prompts = dataset.prompts[: args.prompts or PARITY_PROMPTS]
    spec = _parity_spec(plain, dataset, args)
    asked: dict[str, object] = {"return_logprob": True, "top_logprobs_num": CANDIDATES}
    context.say(f"parity: {len(prompts)} prompts, without drafter")
    alone = ask_all(plain, spec, prompts, streams=1, extra=asked)
    again = ask_all(plain, spec, prompts, streams=PARITY_BATCH, extra=asked)
    _require_answers((*alone, *again))
    return PlainAnswers(prompts=tuple(prompt.id for prompt in prompts), alone=alone, again=again)


def compare_answers(
    server: Server, answers: PlainAnswers, dataset: PromptSet, args: argparse.Namespace, context: Context
) -> Parity:
    """Ask the server with drafter the prompts of ``answers``; compare. Raises KitError ``parity-failed`` (10)."""
    context.say("parity: the same prompts with drafter")
    prompts = dataset.prompts[: len(answers.prompts)]
    drafted = ask_all(server, _parity_spec(server, dataset, args), prompts, streams=1)
    _require_answers(drafted)
    return judge_parity(answers.prompts, answers.alone, answers.again, drafted)


def _parity_spec(server: Server, dataset: PromptSet, args: argparse.Namespace) -> Spec:
    return msgspec.structs.replace(
        _spec(server, dataset, args), endpoint=Endpoint.GENERATE, temperature=0.0, output_tokens=PARITY_TOKENS
    )


def _require_answers(records: Sequence[Record]) -> None:
    for record in records:
        if record.error is not None:
            raise _parity_failed(record)


def _parity_failed(record: Record) -> KitError:
    return KitError(
        "parity-failed",
        "a greedy answer for the comparison could not be had",
        evidence=(f"{record.error}: {record.detail}",),
        remedy="both servers must be SGLang and serve /generate; raise --timeout-s for slow ones",
        exit_code=Exit.UNREACHABLE,
    )


def require_results(without: str | None, drafted: str | None) -> None:
    """Read what the speed-up model will need, before a server is loaded for it. Raises KitError (exit 2)."""
    if drafted and not without:
        raise KitError(
            "no-baseline",
            "the speed-up model needs a sweep without drafter beside the one with it",
            remedy="give --without FILE too, a result of 'kitctl bench' on the stack without drafter",
            exit_code=Exit.USAGE,
        )
    for file in (without, drafted):
        if file:
            read_result(file, read_text(file))


def model_from_files(without: str, drafted: str, point: Acceptance) -> SpeedModel | None:
    """The speed-up model from two result files of ``kitctl bench`` and the accept length measured now."""
    plain = read_result(without, read_text(without))
    other = read_result(drafted, read_text(drafted))
    return fit_speedup(plain.points, other.points, tau=point.overall.accept_length)


def prediction_from_file(without: str, point: Acceptance) -> dict[int, float]:
    """Speed-ups to expect by concurrency, from a sweep without drafter alone and the accept length measured now."""
    plain = {
        point.concurrency: point.output_tokens_per_s
        for point in read_result(without, read_text(without)).points
        if point.concurrency is not None and point.valid and point.output_tokens_per_s
    }
    return predict_from_plain(plain, tau=point.overall.accept_length, block=max(1, len(point.histogram)))
