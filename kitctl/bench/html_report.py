"""The comparison as one page that needs nothing else: tables and plots, for light and dark screens and for paper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from kitctl.bench.compare import Difference, Metric, differences, loads_of, point_at, winners
from kitctl.bench.points import Point
from kitctl.bench.results import ResultFile
from kitctl.bench.svg import DASHES, MARKERS, Curve, Mark, bar_plot, line_plot, marker, span_plot
from kitctl.bench.tables import hole_lines, load_label, note_line, winner_lines
from kitctl.finding import Finding

Pick = Callable[[Point], float | None]


def page(
    results: Sequence[ResultFile],
    *,
    css: str,
    acceptances: Sequence[Mapping[str, Any]] = (),
    notes: Sequence[Finding] = (),
    made_by: str,
) -> str:
    """The whole page. ``acceptances``: what ``kitctl accept --json`` printed; ``notes``: what else differs."""
    names = ", ".join(escape(result.head.label) for result in results)
    body = [
        "<h1>Throughput and latency over concurrency</h1>",
        f'<p class="soft">{names} · {escape(made_by)}</p>',
        *_notes(notes),
        *result_sections(results, acceptances=acceptances),
    ]
    return document(f"kitctl: {names}", body, css=css)


def document(title: str, body: Iterable[str], *, css: str) -> str:
    """A page of the report's look around ``body``. ``title`` and ``body`` are HTML already."""
    head = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{css}</style>\n</head>\n<body>\n"
    )
    return head + "\n".join([*body, "</body>", "</html>", ""])


def result_sections(
    results: Sequence[ResultFile], *, acceptances: Sequence[Mapping[str, Any]] = ()
) -> tuple[str, ...]:
    """Tables, plots and remarks of results that were measured under the same load."""
    found = differences(results) if len(results) > 1 else ()
    return (
        *_throughput(results),
        *_legend(results),
        *_plots(results, acceptances),
        *_latencies(results),
        *_changes(found),
        *_remarks(results),
        *_heads(results),
    )


def table(head: Sequence[str], rows: Iterable[str]) -> list[str]:
    """A table that scrolls on narrow screens; ``head`` as text, ``rows`` as HTML."""
    cells = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    return [
        f'<div class="scroll"><table><thead><tr>{cells}</tr></thead><tbody>',
        *rows,
        "</tbody></table></div>",
    ]


def _cell(value: float | None, digits: int, *, best: bool = False, valid: bool = True) -> str:
    """A figure rounded for the eye; ``data-value`` holds it as the JSON does."""
    if value is None:
        return "<td>–</td>"
    kind = "bad" if not valid else "best" if best else ""
    mark = "" if valid else " !"
    return f'<td class="{kind}" data-value="{value!r}">{value:.{digits}f}{mark}</td>'


def _throughput(results: Sequence[ResultFile]) -> Iterable[str]:
    loads = loads_of(results)
    rows = []
    tops = {
        load: max(
            (p.output_tokens_per_s or 0 for r in results if (p := point_at(r, load)) is not None and p.valid),
            default=0,
        )
        for load in loads
    }
    for result in results:
        cells = []
        for load in loads:
            point = point_at(result, load)
            value = point.output_tokens_per_s if point else None
            best = len(results) > 1 and value is not None and value == tops[load]
            cells.append(_cell(value, 1, best=best, valid=point is None or point.valid))
        rows.append(
            f'<tr data-table="throughput"><th scope="row">{escape(result.head.label)}</th>{"".join(cells)}</tr>'
        )
    yield "<h2>Output tokens per second</h2>"
    yield from table(["", *(load_label(load) for load in loads)], rows)
    lines = list(winner_lines(winners(results)))
    if lines:
        yield f"<p>{'<br>'.join(escape(line) for line in lines)}</p>"


def _legend(results: Sequence[ResultFile]) -> Iterable[str]:
    yield '<ul class="legend">'
    for place, result in enumerate(results):
        dash = DASHES[place // 2 % len(DASHES)]
        shape = marker(MARKERS[place % len(MARKERS)], 17, 7)
        yield (
            f'<li><svg viewBox="0 0 34 14" aria-hidden="true"><path class="line c{place % 8}" d="M0 7H34" '
            f'stroke-dasharray="{dash}"/><path class="mark c{place % 8}" d="{shape}"/></svg>'
            f"{escape(result.head.label)}</li>"
        )
    yield "</ul>"


def _curves(
    results: Sequence[ResultFile], x: Pick, y: Pick, *, interval: str | None, unit: str
) -> list[Curve]:
    curves = []
    for place, result in enumerate(results):
        marks = []
        for point in result.points:
            at, value = x(point), y(point)
            if at is None or value is None or point.concurrency is None:
                continue
            low, high = (getattr(point, interval) if interval else None) or (None, None)
            tip = f"{result.head.label} at C={point.concurrency}: {value:.2f} {unit}"
            marks.append(Mark(x=at, y=value, tip=tip, low=low, high=high, hollow=not point.valid))
        curves.append(Curve(label=result.head.label, place=place, marks=tuple(marks)))
    return curves


def _plots(results: Sequence[ResultFile], acceptances: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    def load(point: Point) -> float | None:
        return float(point.concurrency) if point.concurrency is not None else None

    streams = "concurrent streams"
    panels = [
        ("Throughput", "bars: 95 % interval; hollow: invalid",
         line_plot(_curves(results, load, lambda p: p.output_tokens_per_s, unit="tok/s",
                           interval="output_tokens_per_s_interval"), x_title=streams, y_title="output tokens/s")),
        ("Time to first token", "median",
         line_plot(_curves(results, load, lambda p: p.ttft_ms.p50 if p.ttft_ms else None, interval=None, unit="ms"),
                   x_title=streams, y_title="TTFT p50, ms")),
        ("Time to first token", "99th percentile",
         line_plot(_curves(results, load, lambda p: p.ttft_ms.p99 if p.ttft_ms else None, interval=None, unit="ms"),
                   x_title=streams, y_title="TTFT p99, ms")),
        ("Time per output token", "mean",
         line_plot(_curves(results, load, lambda p: p.tpot_ms.mean if p.tpot_ms else None, unit="ms",
                           interval="tpot_ms_interval"), x_title=streams, y_title="TPOT, ms")),
        ("Trade-off", "up and right is better",
         line_plot(_curves(results, _user_speed, lambda p: p.output_tokens_per_s, interval=None, unit="tok/s"),
                   x_title="tokens/s that one user sees", y_title="output tokens/s of all", log_x=False)),
        ("Drafts taken a step", "share of verify steps", _accept_plot(acceptances)),
        ("Start", "phases of the load, seconds", _phase_plot(results)),
    ]  # fmt: skip
    yield '<div class="plots">'
    for title, note, svg in panels:
        if svg:
            yield f"<figure><figcaption>{title} <span>{note}</span></figcaption>{svg}</figure>"
    yield "</div>"


def _user_speed(point: Point) -> float | None:
    return 1e3 / point.tpot_ms.mean if point.tpot_ms and point.tpot_ms.mean > 0 else None


def _accept_plot(acceptances: Sequence[Mapping[str, Any]]) -> str:
    groups = []
    for place, found in enumerate(acceptances):
        histogram = found["points"][0]["histogram"] if found.get("points") else []
        total = sum(histogram)
        if total:
            groups.append((str(found.get("label")), place, [count / total for count in histogram]))
    return bar_plot(groups, x_title="drafts taken", y_title="share of steps")


def _phase_plot(results: Sequence[ResultFile]) -> str:
    rows = []
    for result in results:
        phases = (result.head.run_record or {}).get("phases") or []
        if phases:
            rows.append(
                (result.head.label, [(str(phase["name"]), float(phase["seconds"])) for phase in phases])
            )
    return span_plot(rows, x_title="seconds")


COLUMNS: tuple[tuple[str, int, Pick], ...] = (
    ("out tok/s", 1, lambda p: p.output_tokens_per_s),
    ("total tok/s", 1, lambda p: p.total_tokens_per_s),
    ("TTFT p50 ms", 1, lambda p: p.ttft_ms.p50 if p.ttft_ms else None),
    ("TTFT p90", 1, lambda p: p.ttft_ms.p90 if p.ttft_ms else None),
    ("TTFT p99", 1, lambda p: p.ttft_ms.p99 if p.ttft_ms else None),
    ("TPOT mean ms", 2, lambda p: p.tpot_ms.mean if p.tpot_ms else None),
    ("TPOT p99", 2, lambda p: p.tpot_ms.p99 if p.tpot_ms else None),
    ("E2E p50 ms", 0, lambda p: p.e2e_ms.p50 if p.e2e_ms else None),
    ("E2E p99", 0, lambda p: p.e2e_ms.p99 if p.e2e_ms else None),
    ("accept", 2, lambda p: p.accept_length),
    ("requests", 0, lambda p: p.requests or None),
    ("errors", 0, lambda p: p.errors if p.requests else None),
)
GOODPUT: tuple[tuple[str, int, Pick], ...] = (
    ("goodput req/s", 2, lambda p: p.goodput_requests_per_s),
    ("goodput %", 0, lambda p: 100 * p.goodput_share if p.goodput_share is not None else None),
)
"""Columns that stand only where a service level was given."""


def _latencies(results: Sequence[ResultFile]) -> Iterable[str]:
    has_goal = any(point.goodput_share is not None for result in results for point in result.points)
    columns = (*COLUMNS, *GOODPUT) if has_goal else COLUMNS
    rows = []
    for result in results:
        for point in result.points:
            name = f"{escape(result.head.label)} {load_label((point.concurrency, point.request_rate))}"
            cells = "".join(_cell(pick(point), digits, valid=point.valid) for _, digits, pick in columns)
            rows.append(f'<tr data-table="points"><th scope="row">{name}</th>{cells}</tr>')
    yield "<h2>All points</h2>"
    yield from table(["", *(title for title, _, _ in columns)], rows)


def _changes(found: Sequence[Difference]) -> Iterable[str]:
    if not found:
        return
    rows = []
    for difference in found:
        if difference.metric is not Metric.THROUGHPUT:
            continue
        low, high = difference.change_interval or (None, None)
        spread = f"{low:+.1%} to {high:+.1%}" if low is not None and high is not None else "–"
        load = load_label((difference.concurrency, difference.request_rate))
        rows.append(
            f'<tr data-table="changes"><th scope="row">{escape(difference.label)} against '
            f"{escape(difference.baseline)}, {load}</th>"
            f'<td data-value="{difference.change!r}">{difference.change:+.1%}</td><td>{spread}</td>'
            f"<td>{difference.verdict}</td></tr>"
        )
    yield "<h2>Changes of throughput</h2>"
    yield from table(["", "change", "95 % interval", "verdict"], rows)


def _remarks(results: Sequence[ResultFile]) -> Iterable[str]:
    lines = list(hole_lines(results))
    if lines:
        yield "<h2>Remarks</h2><ul>"
        yield from (f"<li>{escape(line)}</li>" for line in lines)
        yield "</ul>"


def _notes(notes: Sequence[Finding]) -> Iterable[str]:
    if notes:
        yield "<ul>"
        yield from (f"<li>{escape(note_line(note))}</li>" for note in notes)
        yield "</ul>"


def _heads(results: Sequence[ResultFile]) -> Iterable[str]:
    yield "<h2>What was measured</h2><ul>"
    for result in results:
        head = result.head
        facts = [head.kind, head.started_at, head.url, head.source]
        if head.spec is not None:
            spec = head.spec
            length = f"{spec.input_tokens} tokens in, " if spec.input_tokens is not None else ""
            facts.append(
                f"{spec.model} by {spec.endpoint}, prompts {spec.dataset}, {length}up to {spec.output_tokens} out, "
                f"temperature {spec.temperature:g}, {spec.repeats} repeats"
            )
        record = head.run_record or {}
        facts += [record.get("id"), record.get("image_id"), (head.server or {}).get("version")]
        yield f"<li><b>{escape(head.label)}</b>: {escape(' · '.join(str(fact) for fact in facts if fact))}</li>"
    yield "</ul>"
