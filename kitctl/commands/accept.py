"""kitctl accept: how many tokens a verify step brings, whether the drafter pays, and whether it changes answers."""

from __future__ import annotations

import argparse

import msgspec

from kitctl.bench.accept_report import acceptance_lines
from kitctl.bench.acceptance import DEFINITION, Acceptance, judge
from kitctl.bench.parity import Parity, parity_lines
from kitctl.bench.speedup import SpeedModel, model_lines
from kitctl.commands.accept_session import (
    measure_acceptance,
    measure_parity,
    model_from_files,
    prediction_from_file,
)
from kitctl.commands.bench_options import dataset_of, endpoints, numbers, positive
from kitctl.commands.server_choice import Server, add_server_arguments, choose_server, other_server
from kitctl.edge.files import write_atomic
from kitctl.errors import Exit
from kitctl.finding import Finding, blocking, finding_lines
from kitctl.result import Context, Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``kitctl accept``."""
    add_server_arguments(parser)
    add = parser.add_argument
    add("--concurrency", type=numbers, default=(1, 8), metavar="N,N", help="streams at a time (default: 1,8)")
    add("--dataset", default="kit", metavar="SET", help="kit, or a JSONL or ShareGPT file (default: kit)")
    add("--prompts", type=positive, metavar="N", help="only the first N prompts of the set")
    add(
        "--output-tokens",
        type=positive,
        default=512,
        metavar="N",
        help="most tokens an answer (default: 512)",
    )
    add("--temperature", type=float, default=0.0, metavar="T", help="sampling temperature (default: 0)")
    add("--ignore-eos", action="store_true", help="let every answer run to its full length")
    add(
        "--endpoint",
        type=endpoints,
        metavar="NAME",
        help="chat or generate (default: chat if it tells meta_info)",
    )
    add(
        "--timeout-s",
        type=float,
        default=600.0,
        metavar="S",
        help="give up after S s of silence (default: 600)",
    )
    add("--min-length", type=float, metavar="L", help="exit 9 when the accept length is surely below L")
    add(
        "--parity", metavar="URL|STACK", help="the same model without drafter: compare greedy answers with it"
    )
    add("--without", metavar="FILE", help="bench result without drafter, for the speed-up model")
    add("--with", dest="drafted", metavar="FILE", help="bench result with drafter, for the speed-up model")
    add("-o", "--output", metavar="FILE", help="also write the JSON here")


def run(args: argparse.Namespace, context: Context) -> Result:
    """Measure and judge. Exit 9 when the drafter is useless, too short, or changes answers."""
    server = choose_server(args)
    dataset = dataset_of(args.dataset)
    points = measure_acceptance(server, dataset, args, context)
    parity = None
    if args.parity:
        parity = measure_parity(server, other_server(args.parity, args), dataset, args, context)
    model = model_from_files(args.without, args.drafted, points[0]) if args.without and args.drafted else None
    predicted = prediction_from_file(args.without, points[0]) if args.without and model is None else {}
    findings = tuple(found for point in points for found in judge(point, least=args.min_length))
    result = _result(server, points, parity, (model, predicted), findings)
    if args.output:
        write_atomic(
            args.output, msgspec.json.format(msgspec.json.encode(result.data), indent=2).decode() + "\n"
        )
    return result


def _result(
    server: Server,
    points: tuple[Acceptance, ...],
    parity: Parity | None,
    speed: tuple[SpeedModel | None, dict[int, float]],
    findings: tuple[Finding, ...],
) -> Result:
    model, predicted = speed
    failed = bool(blocking(findings)) or (parity is not None and parity.verdict == "broken")
    data = {
        "schema": "kitctl.accept/1",
        "definition": DEFINITION,
        "label": server.label,
        "model": server.model,
        "points": msgspec.to_builtins(points),
        "parity": msgspec.to_builtins(parity),
        "speedup": msgspec.to_builtins(model),
        "predicted_speedup": {str(concurrency): value for concurrency, value in predicted.items()},
        "findings": msgspec.to_builtins(findings),
        "run_record": server.record,
    }
    lines = [DEFINITION, *acceptance_lines(points)]
    lines += parity_lines(parity) if parity is not None else ()
    lines += model_lines(model) if model is not None else ()
    lines += [f"C={concurrency}: {value:.2f}x is to be expected" for concurrency, value in predicted.items()]
    lines += finding_lines(findings)
    return Result(data=data, lines=tuple(lines), exit=Exit.GATE if failed else Exit.OK)
