"""Write a campaign's report beside its journal: text, page, JSON, and a result file an arm for ``kitctl compare``."""

from __future__ import annotations

import msgspec

from kitctl import __version__
from kitctl.bench.results import ResultFile, line_of
from kitctl.campaign.figures import results_of
from kitctl.campaign.report import Report, report_of
from kitctl.campaign.report_text import report_json, report_lines, report_page
from kitctl.campaign.state import State
from kitctl.edge.files import write_atomic
from kitctl.edge.package_data import package_text


def write_report(state: State, folder: str) -> tuple[Report, tuple[str, ...]]:
    """The report and its lines; ``report.txt``, ``report.html``, ``report.json`` and ``results/`` are written."""
    report = report_of(state)
    results = [results_of(state, found.load) for found in report.tables]
    lines = report_lines(report, results)
    css = package_text("report.css")
    page = report_page(report, results, css=css, made_by=f"kitctl {__version__}")
    write_atomic(f"{folder}/report.txt", "\n".join(lines) + "\n")
    write_atomic(f"{folder}/report.html", page)
    body = msgspec.json.format(msgspec.json.encode(report_json(report)), indent=2).decode()
    write_atomic(f"{folder}/report.json", body + "\n")
    for found, own in zip(report.tables, results, strict=True):
        for result in own:
            _write_result(
                f"{folder}/results/{found.load}/{result.head.label.replace('/', '_')}.jsonl", result
            )
    return report, (*lines, f"report: {folder}/report.html (and .txt, .json)")


def _write_result(path: str, result: ResultFile) -> None:
    items = [line_of(result.head), *map(line_of, result.repeats), *map(line_of, result.points)]
    write_atomic(path, "\n".join(items) + "\n")
