"""kitctl quality: questions with exact answers, so that a faster configuration that answers worse is seen."""

from __future__ import annotations

import argparse

import msgspec

from kitctl.bench.prompts import PromptSet
from kitctl.bench.scoring import (
    SCHEMA,
    Scored,
    answers_of,
    by_category,
    change_between,
    quality_data,
    score_answer,
    score_lines,
    score_of,
    why_invalid,
)
from kitctl.bench.workload import Endpoint, Spec
from kitctl.commands.accept_session import ask_all, require_an_answer
from kitctl.commands.argument_types import positive, share, some_seconds, streams, temperature
from kitctl.commands.question_sets import earlier_result, question_set
from kitctl.commands.server_choice import Server, add_server_arguments, answer_limit, choose_server
from kitctl.commands.stack_death import require_alive, telling_death
from kitctl.edge.files import require_new_file, write_atomic
from kitctl.errors import Exit
from kitctl.result import Context, Result

ANSWER_TOKENS = 2048


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``kitctl quality``."""
    add_server_arguments(parser)
    add = parser.add_argument
    add(
        "--dataset",
        default="kit",
        metavar="SET",
        help="kit, demo (what the demo model knows), or a JSONL file with prompt and answer (default: kit)",
    )
    add("--concurrency", type=streams, default=8, metavar="N", help="questions at a time (default: 8)")
    add(
        "--output-tokens",
        type=positive,
        metavar="N",
        help="most tokens an answer (default: 2048, or half of the context where that is less)",
    )
    add("--temperature", type=temperature, default=0.0, metavar="T", help="sampling temperature (default: 0)")
    add(
        "--timeout-s",
        type=some_seconds,
        default=600.0,
        metavar="S",
        help="give up after S s of silence (default: 600)",
    )
    add(
        "--min-score",
        type=share,
        metavar="X",
        help="exit 9 when the share of right answers is below X (0 to 1)",
    )
    add("--against", metavar="FILE", help="an earlier result: exit 9 when this one is surely worse")
    add("-o", "--output", metavar="FILE", help="also write the JSON to this new file")


def run(args: argparse.Namespace, context: Context) -> Result:
    """Ask, score, compare. Exit 9 when the score is below the limit, surely worse than the earlier one, or invalid.

    Raises KitError for a stack that died meanwhile (exit 7), ``no-answer`` (exit 10) when no question was answered.
    """
    require_new_file(args.output)
    server = choose_server(args)
    dataset = question_set(args.dataset)
    limit = answer_limit(server, args.output_tokens, most=ANSWER_TOKENS)
    settings = {"output_tokens": limit, "temperature": args.temperature}
    earlier = earlier_result(args.against, dataset, settings) if args.against else None
    spec = Spec(
        model=server.model,
        endpoint=Endpoint.CHAT,
        dataset=dataset.name,
        output_tokens=limit,
        ignore_eos=False,
        temperature=args.temperature,
        timeout_s=args.timeout_s,
    )
    context.say(f"{len(dataset.prompts)} questions, {args.concurrency} at a time")
    answers = _ask(server, spec, dataset, streams=args.concurrency)
    reasons = why_invalid(answers)
    right = {answer.id: answer.correct for answer in answers}
    change = change_between(answers_of(earlier), right) if earlier and not reasons else None
    overall = score_of(answers)
    too_low = args.min_score is not None and overall.share < args.min_score
    data = {
        "schema": SCHEMA,
        "label": server.label,
        "model": server.model,
        "run_record": server.record,
        **settings,
        **quality_data(answers, change, dataset=dataset),
    }
    if args.output:
        write_atomic(args.output, f"{msgspec.json.format(msgspec.json.encode(data), indent=2).decode()}\n")
    return Result(
        data=data,
        lines=score_lines(overall, by_category(answers), change, reasons),
        exit=Exit.GATE if reasons or too_low or (change is not None and change.is_worse) else Exit.OK,
    )


def _ask(server: Server, spec: Spec, dataset: PromptSet, *, streams: int) -> tuple[Scored, ...]:
    with telling_death(server):
        records = ask_all(server, spec, dataset.prompts, streams=streams)
        require_an_answer(server, records)
    require_alive(server, failed=any(record.error is not None for record in records))
    return tuple(score_answer(*pair) for pair in zip(dataset.prompts, records, strict=True))
