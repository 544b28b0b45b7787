"""kitctl accept: how many tokens a verify step brings, whether the drafter pays, and whether it changes answers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import msgspec

from kitctl.bench.accept_report import Outcome, outcome_data, outcome_lines
from kitctl.bench.acceptance import Acceptance, judge
from kitctl.bench.parity import Parity
from kitctl.commands.accept_parity import choose_plain, measure_parity, require_parity_words
from kitctl.commands.accept_session import measure_acceptance
from kitctl.commands.accept_speedup import Sweeps, model_of, prediction_of, read_speedup_sweeps
from kitctl.commands.argument_types import positive, positive_number, some_seconds, stream_counts, temperature
from kitctl.commands.bench_options import dataset_of, endpoints
from kitctl.commands.server_choice import add_server_arguments, choose_server
from kitctl.commands.stack_death import require_alive, telling_death
from kitctl.edge.files import require_new_file, write_atomic
from kitctl.errors import Exit
from kitctl.result import Context, Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``kitctl accept``."""
    add_server_arguments(parser)
    add = parser.add_argument
    add(
        "--concurrency",
        type=stream_counts,
        default=(1, 8),
        metavar="N,N",
        help="streams at a time (default: 1,8)",
    )
    add(
        "--dataset",
        default="kit",
        metavar="SET",
        help="kit, demo (what the demo model knows), or a JSONL or ShareGPT file (default: kit)",
    )
    add("--prompts", type=positive, metavar="N", help="only the first N prompts of the set")
    add(
        "--output-tokens",
        type=positive,
        metavar="N",
        help="most tokens an answer (default: 512, or half of the context where that is less)",
    )
    add("--temperature", type=temperature, default=0.0, metavar="T", help="sampling temperature (default: 0)")
    add("--ignore-eos", action="store_true", help="let every answer run to its full length")
    add(
        "--endpoint",
        type=endpoints,
        metavar="NAME",
        help="chat or generate (default: chat if it tells meta_info)",
    )
    add(
        "--timeout-s",
        type=some_seconds,
        default=600.0,
        metavar="S",
        help="give up after S s of silence (default: 600)",
    )
    add(
        "--min-length",
        type=positive_number,
        metavar="L",
        help="exit 9 when the accept length is surely below L",
    )
    add(
        "--parity", metavar="URL|STACK", help="the same model without drafter: compare greedy answers with it"
    )
    add("--parity-name", metavar="NAME", help="the copy of --parity's stack that was started under this name")
    add("--without", metavar="FILE", help="bench result without drafter, for the speed-up model")
    add("--with", metavar="FILE", help="bench result with drafter, for the speed-up model")
    add("-o", "--output", metavar="FILE", help="also write the JSON to this new file")


def run(args: argparse.Namespace, context: Context) -> Result:
    """Measure and judge. Exit 9 when the drafter is useless, too short, or changes answers, or too many requests fail.

    Raises KitError for a stack that died meanwhile (exit 7), ``no-answer`` (exit 10) when no prompt was answered.
    """
    require_new_file(args.output)
    sweeps = read_speedup_sweeps(args.without, vars(args)["with"])
    require_parity_words(args)
    server = choose_server(args)
    plain = choose_plain(server, args)
    dataset = dataset_of(args.dataset)
    parity = None
    with telling_death(server):
        points = measure_acceptance(server, dataset, args, context)
        if plain is not None:
            with telling_death(plain):
                parity = measure_parity(server, plain, dataset, args, context)
    require_alive(server, failed=any(point.errors for point in points))
    outcome = _outcome(points, parity, sweeps, least=args.min_length, say=context.say)
    data = {
        "label": server.label,
        "model": server.model,
        "run_record": server.record,
        **outcome_data(outcome),
    }
    if args.output:
        write_atomic(args.output, f"{msgspec.json.format(msgspec.json.encode(data), indent=2).decode()}\n")
    return Result(data=data, lines=outcome_lines(outcome), exit=Exit.GATE if outcome.failed else Exit.OK)


def _outcome(
    points: Sequence[Acceptance],
    parity: Parity | None,
    sweeps: Sweeps,
    *,
    least: float | None,
    say: Callable[[str], None],
) -> Outcome:
    """What was found; that no speed-up can be predicted, where one was asked for, is said."""
    predicted = prediction_of(sweeps, points[0])
    if sweeps.plain is not None and sweeps.drafted is None and not predicted:
        block = len(points[0].histogram)
        say(
            f"no speed-up can be predicted: --without holds no valid point of a C that has one at {block} C too"
        )
    return Outcome(
        points=tuple(points),
        parity=parity,
        model=model_of(sweeps, points[0]),
        predicted=predicted,
        findings=tuple(found for point in points for found in judge(point, least=least)),
    )
