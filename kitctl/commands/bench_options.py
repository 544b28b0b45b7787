"""The options of a load, and the settings that they mean."""

from __future__ import annotations

import argparse

from kitctl.bench.points import Goal
from kitctl.bench.prompts import PromptSet, read_prompt_set, seed_of
from kitctl.bench.workload import Endpoint, Spec, Step, rotate
from kitctl.commands.argument_types import (
    one_line,
    positive,
    positive_number,
    rates,
    repeats,
    seconds,
    some_seconds,
    stream_counts,
    temperature,
)
from kitctl.edge.files import read_text
from kitctl.edge.package_data import package_set
from kitctl.edge.result_files import new_run_id

AUTO = (Endpoint.COMPLETIONS, Endpoint.CHAT)


def endpoints(text: str) -> tuple[Endpoint, ...]:
    """``auto`` or one endpoint."""
    if text == "auto":
        return AUTO
    if text not in set(Endpoint):
        raise argparse.ArgumentTypeError(f"{text!r} is none of auto, {', '.join(Endpoint)}")
    return (Endpoint(text),)


def token_range(text: str) -> tuple[int, int]:
    """``LOW:HIGH`` token ids."""
    low, _, high = text.partition(":")
    if not (_is_id(low) and _is_id(high) and int(low) < int(high)):
        raise argparse.ArgumentTypeError(f"{text!r} is not LOW:HIGH, as 100:500")
    return int(low), int(high)


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def add_load_arguments(parser: argparse.ArgumentParser) -> None:
    """What is asked, how often, and where results go."""
    _add_requests(parser)
    goal = parser.add_argument_group("service level, for goodput")
    for name in ("ttft", "tpot", "e2e"):
        goal.add_argument(
            f"--slo-{name}-ms", type=positive_number, metavar="MS", help=f"{name.upper()} at most MS"
        )
    other = parser.add_argument_group("second opinion")
    other.add_argument("--with", choices=("sglang",), help="also run the engine's own client")
    keep = parser.add_argument_group("results")
    keep.add_argument(
        "-o", "--output", metavar="FILE", help="result file (default: a new one in the state folder)"
    )
    keep.add_argument(
        "--resume", action="store_true", help="go on with an interrupted sweep of the same settings"
    )
    keep.add_argument(
        "--label",
        type=one_line,
        metavar="TEXT",
        help="its name in tables (default: the stack or the address)",
    )


def _add_requests(parser: argparse.ArgumentParser) -> None:
    load = parser.add_argument_group("load")
    load.add_argument(
        "--concurrency", type=stream_counts, metavar="N,N", help="streams of a closed loop (default: 1,8,32)"
    )
    load.add_argument("--rate", type=rates, metavar="R,R", help="requests a second of an open loop (Poisson)")
    load.add_argument(
        "--requests",
        type=positive,
        default=5,
        metavar="N",
        help="requests a stream and repeat (5); with --rate, N times 10 s of arrivals; never below 5 a repeat",
    )
    load.add_argument("--repeats", type=repeats, default=3, metavar="N", help="repeats of each point (3)")
    load.add_argument(
        "--dataset",
        default="random",
        metavar="SET",
        help="random, kit, demo, or a JSONL or ShareGPT file (random)",
    )
    load.add_argument(
        "--input-tokens", type=positive, default=128, metavar="N", help="length of random prompts (128)"
    )
    load.add_argument(
        "--output-tokens", type=positive, metavar="N", help="tokens asked for (random: 128, else 512)"
    )
    load.add_argument(
        "--token-range",
        type=token_range,
        default=(100, 500),
        metavar="LOW:HIGH",
        help="ids of random prompts (100:500, which every vocabulary holds; an id beyond it can end the engine)",
    )
    load.add_argument(
        "--endpoint", type=endpoints, default=AUTO, metavar="NAME", help="auto, completions, chat, generate"
    )
    load.add_argument(
        "--temperature", type=temperature, default=0.0, metavar="T", help="sampling temperature (0)"
    )
    load.add_argument("--respect-eos", action="store_true", help="let random prompts end (others always may)")
    load.add_argument(
        "--ramp-s", type=seconds, metavar="S", help="spread the starts over S seconds (one request's length)"
    )
    load.add_argument(
        "--timeout-s",
        type=some_seconds,
        default=600.0,
        metavar="S",
        help="give up after S s of silence (600)",
    )
    load.add_argument("--no-flush", action="store_true", help="leave the engine's prefix cache as it is")
    load.add_argument(
        "--seed", metavar="TEXT", help="the same prompts as a run with this seed (default: new ones)"
    )


def dataset_of(name: str) -> PromptSet:
    """The set that ``--dataset`` names, the kit's own before a file; for random prompts ``kit`` lends its words."""
    own = "kit" if name == "random" else name
    text = package_set("prompts", own)
    return read_prompt_set(own, text if text is not None else read_text(name))


def spec_of(args: argparse.Namespace, model: str, dataset: PromptSet) -> Spec:
    """The settings of a sweep. Real prompts end where the model ends them; random ones run to their length."""
    is_random = args.dataset == "random"
    low, high = args.token_range
    return Spec(
        model=model,
        endpoint=args.endpoint[0] if is_random or len(args.endpoint) == 1 else Endpoint.CHAT,
        dataset="random" if is_random else dataset.name,
        dataset_sha256=None if is_random else dataset.sha256,
        input_tokens=args.input_tokens if is_random else None,
        output_tokens=args.output_tokens or (128 if is_random else 512),
        ignore_eos=is_random and not args.respect_eos,
        temperature=args.temperature,
        requests_per_stream=args.requests,
        repeats=args.repeats,
        token_low=low,
        token_high=high,
        ramp_s=args.ramp_s,
        timeout_s=args.timeout_s,
        flush=not args.no_flush,
        goal=_goal(args),
    )


def _goal(args: argparse.Namespace) -> Goal | None:
    goal = Goal(ttft_ms=args.slo_ttft_ms, tpot_ms=args.slo_tpot_ms, e2e_ms=args.slo_e2e_ms)
    return goal if goal != Goal() else None


def steps_of(args: argparse.Namespace) -> tuple[Step, ...]:
    """All repeats in rotated order."""
    concurrencies = args.concurrency or (() if args.rate else (1, 8, 32))
    return rotate(concurrencies, args.rate or (), args.repeats)


def seed_from(text: str | None) -> int:
    """The run's seed: from the text given, else one that no other run has."""
    return seed_of(text if text is not None else new_run_id())
