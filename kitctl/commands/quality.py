"""kitctl quality: questions with exact answers, so that a faster configuration that answers worse is seen."""

from __future__ import annotations

import argparse
from typing import Any

import msgspec

from kitctl.bench.prompts import PromptSet, read_prompt_set
from kitctl.bench.scoring import (
    Change,
    Scored,
    answers_of,
    change_between,
    score_answer,
    score_lines,
    score_of,
)
from kitctl.bench.workload import Endpoint, Spec
from kitctl.commands.accept_session import ask_all
from kitctl.commands.bench_options import positive
from kitctl.commands.server_choice import Server, add_server_arguments, choose_server
from kitctl.edge.files import read_text, write_atomic
from kitctl.edge.package_data import package_text
from kitctl.errors import Exit, KitError
from kitctl.result import Context, Result

SCHEMA = "kitctl.quality/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``kitctl quality``."""
    add_server_arguments(parser)
    add = parser.add_argument
    add(
        "--dataset",
        default="kit",
        metavar="SET",
        help="kit, or a JSONL file with prompt and answer (default: kit)",
    )
    add("--concurrency", type=positive, default=8, metavar="N", help="questions at a time (default: 8)")
    add(
        "--output-tokens",
        type=positive,
        default=2048,
        metavar="N",
        help="most tokens an answer (default: 2048)",
    )
    add(
        "--timeout-s",
        type=float,
        default=600.0,
        metavar="S",
        help="give up after S s of silence (default: 600)",
    )
    add(
        "--min-score",
        type=float,
        metavar="X",
        help="exit 9 when the share of right answers is below X (0 to 1)",
    )
    add("--against", metavar="FILE", help="an earlier result: exit 9 when this one is surely worse")
    add("-o", "--output", metavar="FILE", help="also write the JSON here")


def run(args: argparse.Namespace, context: Context) -> Result:
    """Ask, score, compare. Exit 9 when the score is below the limit or surely worse than the earlier one."""
    server = choose_server(args)
    dataset = _dataset(args.dataset)
    earlier = _earlier(args.against, dataset) if args.against else None
    spec = Spec(
        model=server.model,
        endpoint=Endpoint.CHAT,
        dataset=dataset.name,
        output_tokens=args.output_tokens,
        ignore_eos=False,
        timeout_s=args.timeout_s,
    )
    context.say(f"{len(dataset.prompts)} questions, {args.concurrency} at a time")
    records = ask_all(server, spec, dataset.prompts, streams=args.concurrency)
    answers = [score_answer(*pair) for pair in zip(dataset.prompts, records, strict=True)]
    change = change_between(answers_of(earlier), {a.id: a.correct for a in answers}) if earlier else None
    result = _result(server, dataset, answers, change, min_score=args.min_score)
    if args.output:
        write_atomic(
            args.output, msgspec.json.format(msgspec.json.encode(result.data), indent=2).decode() + "\n"
        )
    return result


def _dataset(name: str) -> PromptSet:
    text = package_text("quality/kit.jsonl") if name == "kit" else read_text(name)
    dataset = read_prompt_set(name, text)
    bare = next((prompt.id for prompt in dataset.prompts if prompt.answer is None), None)
    if bare is None:
        return dataset
    raise KitError(
        "no-answers",
        f"{name}: question {bare} has no answer to score against",
        remedy='give every line an "answer" (and "match": "number" or "text")',
        exit_code=Exit.USAGE,
    )


def _earlier(path: str, dataset: PromptSet) -> dict[str, Any]:
    try:
        found: dict[str, Any] = msgspec.json.decode(read_text(path), type=dict)
    except msgspec.DecodeError:
        found = {}
    if found.get("schema") == SCHEMA and found["dataset"]["sha256"] == dataset.sha256:
        return found
    raise KitError(
        "other-questions",
        f"{path} is not a result of the same questions",
        remedy="give a file that kitctl quality -o wrote with the same --dataset",
        exit_code=Exit.USAGE,
    )


def _result(
    server: Server,
    dataset: PromptSet,
    answers: list[Scored],
    change: Change | None,
    *,
    min_score: float | None,
) -> Result:
    overall = score_of(answers)
    names = sorted({answer.category for answer in answers})
    categories = {name: score_of([a for a in answers if a.category == name]) for name in names}
    failed = (change is not None and change.is_worse) or (min_score is not None and overall.share < min_score)
    data = {
        "schema": SCHEMA,
        "label": server.label,
        "model": server.model,
        "dataset": {"name": dataset.name, "sha256": dataset.sha256},
        "score": msgspec.to_builtins(overall),
        "categories": msgspec.to_builtins(categories),
        "change": msgspec.to_builtins(change),
        "answers": msgspec.to_builtins(answers),
        "run_record": server.record,
    }
    return Result(
        data=data, lines=score_lines(overall, categories, change), exit=Exit.GATE if failed else Exit.OK
    )
