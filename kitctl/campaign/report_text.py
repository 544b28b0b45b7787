"""How does a campaign's report read on a terminal and as a page?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import msgspec

from kitctl.bench.html_report import document, result_sections, table
from kitctl.bench.parity import parity_lines
from kitctl.bench.results import ResultFile
from kitctl.bench.speedup import model_lines
from kitctl.bench.tables import hole_lines, plain_table
from kitctl.campaign.events import Reason
from kitctl.campaign.forecast import duration_text
from kitctl.campaign.recommend import recommendation_lines
from kitctl.campaign.report import Answered, Cell, Report, Table

OUTCOMES = {
    "complete": "complete",
    "time-budget": "its time is spent; raise budget.time_s and run it again to go on",
    "stopped": "stopped by its failure policy",
    None: "not over",
}


def report_lines(report: Report, results: Sequence[Sequence[ResultFile]] = ()) -> tuple[str, ...]:
    """The whole report as text. ``results``: those of each table, for their remarks."""
    lines = [*_head(report), *(f"GATE {arm}: {why}" for arm, why in report.broken_gates.items())]
    for number, found in enumerate(report.tables):
        lines += ["", *_table_lines(found, report)]
        lines += list(hole_lines(results[number])) if number < len(results) else []
    lines += _answer_lines(report.answers)
    lines += ["", *_start_lines(report), *_reason_lines(report)]
    return tuple(lines)


def _head(report: Report) -> list[str]:
    kind = "rehearsal on the CPU engine with the demo model" if report.rehearsal else "campaign"
    sessions = f" in {report.sessions} sessions" if report.sessions > 1 else ""
    return [
        f"{report.name}: {kind}: {OUTCOMES.get(report.outcome, report.outcome)}",
        f"{report.done} of {report.works} works done in {duration_text(report.active_s)}{sessions}; "
        f"begun {report.begun_at}",
    ]


def _table_lines(found: Table, report: Report) -> list[str]:
    notes = _notes(report)
    rows = [[f"output tok/s, {found.load}", *(f"C={c}" for c in found.concurrency)]]
    for arm in report.arms:
        cells = [cell for cell in found.cells if cell.arm == arm.id]
        rows.append([arm.id, *(cell_text(cell, notes) for cell in cells)])
    lines = plain_table(rows)
    lines += _recommended(found, report)
    for drafter, plain, model in found.crossovers:
        lines.append(f"{drafter} against {plain}: {model_lines(model)[-1]}")
    return lines


def _recommended(found: Table, report: Report) -> list[str]:
    if report.rehearsal:
        return ["a rehearsal recommends nothing: every stack served the same demo model on the CPU"]
    return [f"recommended at {line}" for line in recommendation_lines(found.recommendation)]


def cell_text(cell: Cell, notes: dict[str, int]) -> str:
    """``97.9 ±1.2``, ``97.9!`` when it is invalid, or ``(2)``: the number of the reason why it is empty."""
    if cell.output_tokens_per_s is None:
        return f"({notes[_note(cell.reason)]})" if cell.reason else "-"
    width = f" ±{(cell.interval[1] - cell.interval[0]) / 2:.1f}" if cell.interval else ""
    few = f" ({cell.repeats} of {cell.wanted})" if cell.repeats < cell.wanted else ""
    return f"{cell.output_tokens_per_s:.1f}{'' if cell.valid else '!'}{width}{few}"


def _note(reason: Reason | None) -> str:
    return f"{reason.code}: {reason.cause}" if reason else ""


def _notes(report: Report) -> dict[str, int]:
    """Every reason of an empty cell or missing answer, numbered in order of first use."""
    found: dict[str, int] = {}
    reasons = [cell.reason for table in report.tables for cell in table.cells]
    for reason in [*reasons, *(answer.reason for answer in report.answers)]:
        if reason is not None:
            found.setdefault(_note(reason), len(found) + 1)
    return found


def _reason_lines(report: Report) -> list[str]:
    reasons = [cell.reason for table in report.tables for cell in table.cells]
    known = {_note(r): r for r in [*reasons, *(answer.reason for answer in report.answers)] if r is not None}
    lines = []
    for note, number in _notes(report).items():
        lines.append(f"({number}) {note}")
        lines += [f"      seen: {line}" for line in known[note].evidence[:4]]
        lines += [f"      do:   {known[note].remedy}"] if known[note].remedy else []
    return lines


def _answer_lines(answers: Iterable[Answered]) -> list[str]:
    lines: list[str] = []
    for answer in answers:
        if answer.accept is not None:
            group = answer.accept.overall
            spread = group.accept_length_interval
            width = f" ({spread[0]:.2f}-{spread[1]:.2f})" if spread else ""
            lines.append(
                f"{answer.work}: accept length {group.accept_length:.2f}{width}, {group.requests} prompts"
            )
        elif answer.parity is not None:
            lines += [f"{answer.arm}: {line}" for line in parity_lines(answer.parity)]
        elif answer.reason is not None:
            lines.append(f"{answer.work}: {_note(answer.reason)}")
    return ["", *lines] if lines else []


def _start_lines(report: Report) -> list[str]:
    lines = []
    for up in report.starts:
        longest = max((p for p in up.phases if p.name != "total"), key=lambda p: p.seconds, default=None)
        detail = f", longest: {longest.name} {longest.seconds:.1f} s" if longest else ""
        lines.append(f"start {up.arm}: {up.outcome} after {up.seconds:.1f} s{detail} (run {up.run})")
        lines += [f"  changed by a remedy: {' '.join(up.settings)}"] if up.settings else []
        lines += [f"  doubt: {doubt}" for doubt in up.doubts]
    left = dict.fromkeys(f"{path} ({why})" for up in report.starts for path, why in up.left_out)
    lines += [f"left out of the rehearsal: {text}" for text in left]
    return lines


def report_json(report: Report) -> dict[str, Any]:
    """The versioned object ``kitctl.campaign/1``."""
    built: dict[str, Any] = msgspec.to_builtins(report)
    return built


def report_page(report: Report, results: Sequence[Sequence[ResultFile]], *, css: str, made_by: str) -> str:
    """The report as one page that needs nothing else."""
    body = [
        f"<h1>Campaign {escape(report.name)}</h1>",
        f'<p class="soft">{escape(report.summary)} · {escape(made_by)}</p>',
        *(f"<p>{escape(line)}</p>" for line in _head(report)),
    ]
    body += [f'<p class="bad">{escape(arm)}: {escape(why)}</p>' for arm, why in report.broken_gates.items()]
    for found, own in zip(report.tables, results, strict=True):
        body += _page_table(found, report)
        body += result_sections(own, acceptances=_accepted(report)) if own else ()
    body += _page_list("Acceptance and parity", _answer_lines(report.answers))
    body += _page_list("Starts", _start_lines(report))
    body += _page_list("Why cells are empty", _reason_lines(report))
    return document(f"kitctl campaign {escape(report.name)}", body, css=css)


def _page_table(found: Table, report: Report) -> list[str]:
    notes = _notes(report)
    rows = []
    for arm in report.arms:
        cells = "".join(
            f'<td title="{escape(_note(cell.reason))}">{escape(cell_text(cell, notes))}</td>'
            for cell in found.cells
            if cell.arm == arm.id
        )
        rows.append(f'<tr data-table="campaign"><th scope="row">{escape(arm.id)}</th>{cells}</tr>')
    lines = _recommended(found, report)
    lines += [f"{d} against {p}: {model_lines(model)[-1]}" for d, p, model in found.crossovers]
    return [
        f"<h2>Output tokens per second, {escape(found.load)}</h2>",
        *table(["", *(f"C={c}" for c in found.concurrency)], rows),
        *_page_list("", lines),
    ]


def _page_list(title: str, lines: Iterable[str]) -> list[str]:
    items = [f"<li>{escape(line)}</li>" for line in lines if line]
    head = [f"<h2>{escape(title)}</h2>"] if title and items else []
    return [*head, "<ul>", *items, "</ul>"] if items else []


def _accepted(report: Report) -> list[dict[str, Any]]:
    return [
        {"label": answer.arm, "points": [msgspec.to_builtins(answer.accept)]}
        for answer in report.answers
        if answer.accept is not None
    ]
