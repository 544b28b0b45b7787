"""kitctl compare: results side by side, the change between them, and a gate that fails on a real regression."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from kitctl import __version__
from kitctl.bench.compare import Metric, comparability, comparison_data, differences
from kitctl.bench.gate import Gate, gate_data, judge
from kitctl.bench.html_report import page
from kitctl.bench.likeness import unlike
from kitctl.bench.results import ResultFile
from kitctl.bench.tables import comparison_text, csv_lines, gate_lines, note_line
from kitctl.commands.result_reading import PUBLISHED, TAKEN, read_all, require_comparable
from kitctl.edge.files import require_place, write_atomic
from kitctl.edge.package_data import package_text
from kitctl.edge.page_file import require_page_place
from kitctl.errors import Exit, KitError
from kitctl.finding import Finding
from kitctl.result import Context, Result


def percent(text: str) -> float:
    """``5%`` or ``0.05`` as a share; nothing can get worse by all of it."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share from 0 to below 100 %, as 5% or 0.05")
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
    add("results", metavar="RESULT", nargs="+", help=f"{TAKEN} for the reference table")
    add(
        "--gate",
        type=percent,
        metavar="5%",
        help="exit 9 when a result is surely worse than the first by more, as 5%% or 0.05, "
        "or lacks what is to be judged",
    )
    add("--gate-on", type=metrics, metavar="M,M", help="throughput (default), ttft, tpot")
    add("--html", metavar="FILE", help="write a page with tables and plots")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    form.add_argument("--csv", action="store_true", help="print all points as CSV")


def run(args: argparse.Namespace, context: Context) -> Result:
    """Compare the results with the first one. Exit 9 when the gate fails."""
    _refuse_usage(args, context)
    results, acceptances = read_all(args.results)
    notes = (*comparability(results), *unlike(results))
    gate = _gate(results, notes, args)
    found = differences(results)
    if args.html:
        css = package_text("report.css")
        made_by = f"kitctl {__version__}"
        write_atomic(args.html, page(results, css=css, acceptances=acceptances, notes=notes, made_by=made_by))
        context.say(f"wrote {args.html}")
    gated = tuple(gate_lines(gate)) if gate is not None else ()
    if args.csv:
        for line in (*map(note_line, notes), *gated):
            context.say(line)
        lines = tuple(csv_lines(results))
    else:
        text = comparison_text(results, found, notes, as_markdown=args.markdown)
        lines = (*text, *(f"- {line.strip()}" if args.markdown else line for line in gated))
    return Result(
        data=comparison_data(results, found, notes, gate_data(gate)),
        lines=lines,
        exit=Exit.OK if gate is None or gate.passed else Exit.GATE,
    )


def _refuse_usage(args: argparse.Namespace, context: Context) -> None:
    """Raises KitError (exit 2) for options that do not go together and a page that cannot be written."""
    if args.gate_on and args.gate is None:
        raise KitError(
            "gate-without-limit",
            "--gate-on says what a gate judges, and there is no gate",
            remedy="add --gate 5%, or leave --gate-on out",
            exit_code=Exit.USAGE,
        )
    if context.as_json and (args.csv or args.markdown):
        raise KitError(
            "two-formats",
            f"--json and --{'csv' if args.csv else 'markdown'} are two formats for one output",
            remedy="give one of --json, --csv and --markdown",
            exit_code=Exit.USAGE,
        )
    require_place(args.html)
    require_page_place(args.html, [name for name in args.results if name != PUBLISHED])


def _gate(results: Sequence[ResultFile], notes: Sequence[Finding], args: argparse.Namespace) -> Gate | None:
    """The gate's outcome. Raises KitError when there is nothing to compare, or what may not be compared."""
    if args.gate is None:
        return None
    if len(results) < 2:
        raise KitError(
            "nothing-to-gate",
            "a gate judges results against the first one, and there is only one",
            evidence=(results[0].head.label,),
            remedy="kitctl compare BASELINE RESULT --gate 5%",
            exit_code=Exit.USAGE,
        )
    require_comparable(notes)
    return judge(results, limit=args.gate, metrics=args.gate_on or (Metric.THROUGHPUT,))
