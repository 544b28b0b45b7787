"""``kitctl runs``: what was up, where, when, by which plan, and how it ended."""

from __future__ import annotations

import argparse

from kitctl.commands.argument_types import positive
from kitctl.edge.runs import list_records, load_record
from kitctl.errors import Exit, KitError
from kitctl.kit.near import did_you_mean
from kitctl.result import Context, Result
from kitctl.watch.run_record import RunRecord
from kitctl.watch.run_report import diff_lines, diff_runs, row_line, run_json, run_row, show_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The sub-commands of ``runs``."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    listed = verbs.add_parser("list", help="all runs, newest first", allow_abbrev=False)
    listed.add_argument("--stack", metavar="STACK", help="only this stack's")
    listed.add_argument("--last", type=positive, metavar="N", help="only the newest N")
    shown = verbs.add_parser("show", help="one run in full", allow_abbrev=False)
    shown.add_argument("run_id", metavar="RUN", help="an id, its beginning, or a stack for its newest run")
    compared = verbs.add_parser("diff", help="in what two runs differ", allow_abbrev=False)
    compared.add_argument("run_id", metavar="RUN", help="the run before")
    compared.add_argument("other_id", metavar="RUN", help="the run after")


def run(args: argparse.Namespace, context: Context) -> Result:
    """List, show or compare run records. Raises KitError ``no-such-run`` (exit 2)."""
    del context
    if args.verb == "list":
        return _list(args.stack, args.last)
    record = _find(args.run_id)
    if args.verb == "show":
        data = {"schema": "kitctl.runs.show/1", "run": run_json(record)}
        return Result(data=data, lines=tuple(show_lines(record)))
    rows = diff_runs(record, _find(args.other_id))
    lines = tuple(line for row in rows for line in diff_lines(row)) or ("the two runs do not differ",)
    return Result(data={"schema": "kitctl.runs.diff/1", "differences": list(rows)}, lines=lines)


def _list(stack: str | None, last: int | None) -> Result:
    records = [record for record in list_records() if stack in (None, record.stack)]
    rows = [run_row(record) for record in records[:last]]
    lines = tuple(row_line(row) for row in rows) or ("no run was recorded here",)
    return Result(data={"schema": "kitctl.runs.list/1", "runs": rows}, lines=lines)


def _find(name: str) -> RunRecord:
    record = load_record(name)
    if record is not None:
        return record
    records = list_records()
    for candidate in records:
        if candidate.id.startswith(name) or name in (candidate.stack, candidate.project):
            return candidate
    raise KitError(
        "no-such-run",
        f"no run is recorded under {name}",
        evidence=(did_you_mean(name, [record.id for record in records]),),
        remedy="kitctl runs list",
        exit_code=Exit.USAGE,
    )
