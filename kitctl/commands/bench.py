"""kitctl bench: a concurrency sweep against a running stack or any OpenAI-compatible server."""

from __future__ import annotations

import argparse
from contextlib import ExitStack

import msgspec

from kitctl.bench.text_report import point_lines
from kitctl.commands.bench_options import add_load_arguments, dataset_of, seed_from, spec_of, steps_of
from kitctl.commands.bench_second import require_stack, second_opinion
from kitctl.commands.bench_sweep import Sweep, run_sweep
from kitctl.commands.server_choice import add_server_arguments, choose_server
from kitctl.commands.stack_death import require_alive, telling_death
from kitctl.edge.files import require_place
from kitctl.errors import Exit
from kitctl.result import Context, Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``kitctl bench``."""
    add_server_arguments(parser)
    add_load_arguments(parser)


def run(args: argparse.Namespace, context: Context) -> Result:
    """Measure every point. Exit 9 when a point is invalid: its numbers are printed with the reasons.

    Raises KitError (exit 7) for a stack that died meanwhile; whole repeats are in the result file all the same.
    """
    require_place(args.output)
    server = choose_server(args)
    asks_engine = vars(args)["with"] is not None
    if asks_engine:
        require_stack(server, args.dataset)
    dataset = dataset_of(args.dataset)
    sweep = Sweep(
        server=server,
        spec=spec_of(args, server.model, dataset),
        endpoints=args.endpoint,
        dataset=dataset,
        steps=steps_of(args),
        seed=seed_from(args.seed),
        out=args.output,
        resume=args.resume,
        label=args.label or server.label,
    )
    with ExitStack() as held:
        with telling_death(server):
            points, path = run_sweep(sweep, context, held)
        failed = any(not point.valid for point in points)
        require_alive(server, failed=failed)
        told = second_opinion(server, sweep, points, path, context) if asks_engine else ()
    return Result(
        data={"schema": "kitctl.bench/1", "file": path, "points": msgspec.to_builtins(points)},
        records=tuple(msgspec.to_builtins(point) for point in points),
        lines=(*point_lines(points), *told, f"results: {path}"),
        exit=Exit.GATE if failed else Exit.OK,
    )
