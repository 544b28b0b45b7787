"""``accept --parity``: the same greedy questions to a server with and to one without drafter, and which one that is."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kitctl.bench.answers import Record
from kitctl.bench.parity import Parity, judge_parity
from kitctl.bench.prompts import PromptSet
from kitctl.bench.workload import Endpoint, Spec
from kitctl.commands.accept_session import ask_all, spec_of
from kitctl.commands.server_choice import Server, answer_limit, is_address, other_server
from kitctl.edge.http_calls import base_url
from kitctl.errors import Exit, KitError
from kitctl.result import Context

PARITY_PROMPTS = 50
PARITY_TOKENS = 256
PARITY_BATCH = 8
CANDIDATES = 5


def require_parity_words(args: argparse.Namespace) -> None:
    """Raises KitError ``parity-name-alone`` (exit 2) for ``--parity-name`` where ``--parity`` names no stack."""
    if args.parity_name and (args.parity is None or is_address(args.parity)):
        raise KitError(
            "parity-name-alone",
            "--parity-name names the copy of a stack, and --parity names no stack",
            remedy="kitctl accept STACK --parity OTHER --parity-name NAME",
            exit_code=Exit.USAGE,
        )


def choose_plain(server: Server, args: argparse.Namespace) -> Server | None:
    """The server that ``--parity`` and ``--parity-name`` name, ``None`` without them.

    Raises KitError as ``choose_server`` does, and ``parity-with-itself`` (exit 2) for the one that is measured.
    """
    if args.parity is None:
        return None
    plain = other_server(args.parity, args, copy=args.parity_name, option="--parity")
    if base_url(plain.target) == base_url(server.target):
        raise KitError(
            "parity-with-itself",
            f"--parity compares {server.label} with another server, and {plain.label} is the same one",
            evidence=(base_url(server.target),),
            remedy="give --parity the stack without drafter; a copy of a stack is named by --parity-name",
            exit_code=Exit.USAGE,
        )
    return plain


@dataclass(frozen=True, kw_only=True)
class PlainAnswers:
    """Greedy answers without a drafter, each of ``tokens`` at most and with its candidates: one at a time, and the
    same again in a batch."""

    prompts: tuple[str, ...]
    tokens: int
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
    """What the server without drafter answers.

    Raises KitError ``parity-failed`` (exit 10), ``parity-drafted`` (exit 9) for one that has a drafter itself.
    """
    prompts = dataset.prompts[: args.prompts or PARITY_PROMPTS]
    tokens = answer_limit(plain, None, most=PARITY_TOKENS)
    spec = _greedy(plain, dataset, args, tokens=tokens)
    asked: dict[str, object] = {"return_logprob": True, "top_logprobs_num": CANDIDATES}
    context.say(f"parity: {len(prompts)} prompts, without drafter")
    alone = ask_all(plain, spec, prompts, streams=1, extra=asked)
    again = ask_all(plain, spec, prompts, streams=PARITY_BATCH, extra=asked)
    _require_answers((*alone, *again))
    _require_plain(plain, alone)
    return PlainAnswers(
        prompts=tuple(prompt.id for prompt in prompts), tokens=tokens, alone=alone, again=again
    )


def compare_answers(
    server: Server, answers: PlainAnswers, dataset: PromptSet, args: argparse.Namespace, context: Context
) -> Parity:
    """Ask the server with drafter the prompts of ``answers``; compare. Raises KitError ``parity-failed`` (10)."""
    context.say("parity: the same prompts with drafter")
    prompts = dataset.prompts[: len(answers.prompts)]
    drafted = ask_all(server, _greedy(server, dataset, args, tokens=answers.tokens), prompts, streams=1)
    _require_answers(drafted)
    return judge_parity(answers.prompts, answers.alone, answers.again, drafted)


def _greedy(server: Server, dataset: PromptSet, args: argparse.Namespace, *, tokens: int) -> Spec:
    spec = spec_of(server, dataset, args, tokens=tokens)
    return msgspec.structs.replace(spec, endpoint=Endpoint.GENERATE, temperature=0.0)


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


def _require_plain(plain: Server, records: Sequence[Record]) -> None:
    drafted = next((r for r in records if (r.meta or {}).get("spec_verify_ct")), None)
    if drafted is not None:
        raise KitError(
            "parity-drafted",
            f"{plain.label}, which --parity compares with, answers with a drafter itself",
            evidence=(f"meta_info: spec_verify_ct {(drafted.meta or {})['spec_verify_ct']}",),
            remedy="give --parity the same model without drafter",
            exit_code=Exit.GATE,
        )
