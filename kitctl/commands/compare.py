"""kitctl compare: results side by side, the change between them, and a gate that fails on a real regression."""

from __future__ import annotations

import argparse

from kitctl import __version__
from kitctl.bench.compare import Metric, comparability, comparison_data, differences, regressions
from kitctl.bench.html_report import page
from kitctl.bench.tables import comparison_text, difference_lines
from kitctl.commands.result_reading import PUBLISHED, read_all
from kitctl.edge.files import require_folder, write_atomic
from kitctl.edge.package_data import package_text
from kitctl.errors import Exit, KitError
from kitctl.finding import finding_lines
from kitctl.result import Context, Result


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
    require_folder(args.html)
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
    text = comparison_text(results, found, as_markdown=args.markdown, as_csv=args.csv)
    gate = [f"GATE {line}" for metric in args.gate_on for line in difference_lines(failed, metric)]
    return Result(
        data=comparison_data(results, found, failed, args.gate),
        lines=(*text, *(() if args.csv else finding_lines(odd)), *gate),
        exit=Exit.GATE if failed else Exit.OK,
    )
