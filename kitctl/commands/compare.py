"""kitctl compare: results side by side, the change between them, and a gate that fails on a real regression."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Sequence
from typing import Any

import msgspec

from kitctl import __version__
from kitctl.bench.bench_serving import is_bench_serving, read_bench_serving
from kitctl.bench.compare import Difference, Metric, comparability, differences, regressions, winners
from kitctl.bench.html_report import page
from kitctl.bench.results import ResultFile, named_apart, read_results
from kitctl.bench.tables import (
    csv_lines,
    difference_lines,
    hole_lines,
    markdown_table,
    plain_table,
    throughput_rows,
    winner_lines,
)
from kitctl.edge.files import read_text, write_atomic
from kitctl.edge.package_data import package_text
from kitctl.errors import Exit, KitError
from kitctl.finding import finding_lines
from kitctl.result import Context, Result

PUBLISHED = "published"


def percent(text: str) -> float:
    """``5%`` or ``0.05`` as a share."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share, as 5% or 0.05")
    return share


def metrics(text: str) -> tuple[Metric, ...]:
    """``throughput,tpot``."""
    try:
        return tuple(Metric(word.strip()) for word in text.split(","))
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(f"{text!r}: take from {', '.join(Metric)}") from wrong


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``kitctl compare``."""
    add = parser.add_argument
    add(
        "results", metavar="RESULT", nargs="+",
        help=f"files of kitctl bench, kitctl accept or bench_serving, or '{PUBLISHED}' for the reference table",
    )  # fmt: skip
    add(
        "--gate",
        type=percent,
        metavar="5%",
        help="exit 9 when a result is surely worse than the first by more",
    )
    add(
        "--gate-on",
        type=metrics,
        default=(Metric.THROUGHPUT,),
        metavar="M,M",
        help="throughput (default), ttft, tpot",
    )
    add("--html", metavar="FILE", help="write a page with tables and plots")
    add("--markdown", action="store_true", help="print the table as Markdown")
    add("--csv", action="store_true", help="print all points as CSV")


def run(args: argparse.Namespace, context: Context) -> Result:
    """Compare the results with the first one. Exit 9 when the gate fails."""
    results, acceptances = read_all(args.results)
    found = differences(results) if len(results) > 1 else ()
    odd = comparability(results)
    if args.gate is not None and odd:
        raise KitError(
            "not-comparable",
            odd[0].cause,
            evidence=odd[0].evidence,
            remedy=odd[0].remedy,
            exit_code=Exit.REFUSED,
        )
    failed = regressions(found, limit=args.gate, metrics=args.gate_on) if args.gate is not None else ()
    if args.html:
        css = package_text("report.css")
        html = page(results, css=css, acceptances=acceptances, made_by=f"kitctl {__version__}")
        write_atomic(args.html, html)
        context.say(f"wrote {args.html}")
    text = _text(results, found, as_markdown=args.markdown, as_csv=args.csv)
    gate = [f"GATE {line}" for metric in args.gate_on for line in difference_lines(failed, metric)]
    return Result(
        data=_data(results, found, failed, args.gate),
        lines=(*text, *(() if args.csv else finding_lines(odd)), *gate),
        exit=Exit.GATE if failed else Exit.OK,
    )


def read_all(names: Sequence[str]) -> tuple[tuple[ResultFile, ...], tuple[dict[str, Any], ...]]:
    """Every named result, of whatever kind, with labels that differ; acceptance results apart."""
    results: list[tuple[str, ResultFile]] = []
    acceptances: list[dict[str, Any]] = []
    for name in names:
        if name == PUBLISHED:
            results += [
                (name, found) for found in read_results(name, package_text("published/reference.jsonl"))
            ]
            continue
        text = read_text(name)
        if '"kitctl.accept/1"' in text[:200]:
            acceptances.append(msgspec.json.decode(text))
        elif is_bench_serving(text):
            allowed = tomllib.loads(package_text("bench_settings.toml"))["server_info"]
            results.append((name, read_bench_serving(name, text, allowed=allowed)))
        else:
            results += [(name, found) for found in read_results(name, text)]
    if not results:
        raise KitError(
            "no-results",
            "none of the files holds a throughput result",
            remedy="give at least one file of kitctl bench or bench_serving",
            exit_code=Exit.USAGE,
        )
    return named_apart(results), tuple(acceptances)


def _text(
    results: Sequence[ResultFile], found: Sequence[Difference], *, as_markdown: bool, as_csv: bool
) -> Sequence[str]:
    if as_csv:
        return csv_lines(results)
    rows = throughput_rows(results)
    table = markdown_table(rows) if as_markdown else plain_table(rows)
    remarks = [*winner_lines(winners(results)), *difference_lines(found), *hole_lines(results)]
    return [*table, "", *(f"- {line}" if as_markdown else line for line in remarks)]


def _data(
    results: Sequence[ResultFile],
    found: Sequence[Difference],
    failed: Sequence[Difference],
    gate: float | None,
) -> dict[str, Any]:
    return {
        "schema": "kitctl.compare/1",
        "results": [
            {"label": r.head.label, "kind": r.head.kind, "points": msgspec.to_builtins(r.points)}
            for r in results
        ],
        "differences": msgspec.to_builtins(found),
        "winners": msgspec.to_builtins(winners(results)),
        "gate": {"limit": gate, "failed": msgspec.to_builtins(failed)},
    }
