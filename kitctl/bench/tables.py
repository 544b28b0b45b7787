"""The comparison as tables: for a terminal, as Markdown, as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence

from kitctl.bench.compare import Band, Difference, Load, Metric, Verdict, loads_of, point_at, winners
from kitctl.bench.gate import Gate
from kitctl.bench.points import Point
from kitctl.bench.results import ResultFile
from kitctl.bench.text_report import goodput_text, number
from kitctl.bench.validity import TWO_REPEATS
from kitctl.finding import Finding, finding_lines


def load_label(load: Load) -> str:
    """``C=8`` or ``2.5 req/s``."""
    return f"C={load[0]}" if load[0] is not None else f"{load[1]:g} req/s"


def cell(point: Point | None) -> str:
    """Throughput of a point; ``!`` marks an invalid one, ``-`` one that is not there."""
    if point is None:
        return "-"
    text = number(point.output_tokens_per_s)
    return text if point.valid else f"{text}!"


def throughput_rows(results: Sequence[ResultFile]) -> list[list[str]]:
    """Head and one row a result: output tokens per second at each load."""
    loads = loads_of(results)
    rows = [["output tok/s", *(load_label(load) for load in loads)]]
    rows += [[r.head.label, *(cell(point_at(r, load)) for load in loads)] for r in results]
    return rows


def plain_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned columns, the first to the left."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]


def markdown_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table, numbers to the right."""
    head, *body = [[text.replace("|", "\\|") for text in row] for row in rows]
    rule = ["---", *["---:"] * (len(head) - 1)]
    return [f"| {' | '.join(row)} |" for row in (head, rule, *body)]


def hole_lines(results: Sequence[ResultFile]) -> Iterable[str]:
    """Goodput where a service level was given, why points are marked, and where figures come from."""
    for result in results:
        if result.head.kind != "measured":
            yield f"{result.head.label}: {result.head.kind}, {result.head.source}"
        if not result.points:
            yield f"{result.head.label}: no point, since no repeat of it came to its end"
        for point in result.points:
            where = f"{result.head.label} {load_label((point.concurrency, point.request_rate))}"
            if (goodput := goodput_text(point)) is not None:
                yield f"{where}: {goodput}"
            yield from (f"{where}: INVALID {reason}" for reason in point.invalid_reasons)
            if result.head.kind == "published":
                yield from (f"{where}: {note}" for note in point.notes)


def wide_lines(results: Sequence[ResultFile]) -> Iterable[str]:
    """Where two repeats gave an interval that says little."""
    for result in results:
        wide = [load_label((p.concurrency, p.request_rate)) for p in result.points if TWO_REPEATS in p.notes]
        if wide:
            yield f"{result.head.label} {', '.join(wide)}: {TWO_REPEATS}"


def difference_lines(found: Sequence[Difference], metric: Metric = Metric.THROUGHPUT) -> Iterable[str]:
    """Each change with its interval."""
    for difference in found:
        if difference.metric is metric:
            load = load_label((difference.concurrency, difference.request_rate))
            yield (
                f"{load}: {difference.label} against {difference.baseline}: {metric} {difference.change:+.1%} "
                f"{_spread(difference)}"
            )


def _spread(difference: Difference) -> str:
    if difference.change_interval is None:
        return "(no interval)"
    low, high = difference.change_interval
    words = {Verdict.SAME: "not more than noise"}
    return f"({low:+.1%} to {high:+.1%}): {words.get(difference.verdict, difference.verdict)}"


def winner_lines(bands: Sequence[Band]) -> Iterable[str]:
    """The fastest in each band."""
    for band in bands:
        where = f"C={band.first}" if band.first == band.last else f"C={band.first} to {band.last}"
        rivals = f" (not surely before {', '.join(band.rivals)})" if band.rivals else ""
        yield f"fastest at {where}: {band.winner}{rivals}"


class _Lines:
    """A target for csv.writer that keeps lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: str) -> int:
        self.lines.append(line.removesuffix("\r\n"))
        return len(line)


CSV_HEAD = (
    "label", "kind", "concurrency", "request_rate", "output_tokens_per_s", "output_tokens_per_s_low",
    "output_tokens_per_s_high", "total_tokens_per_s", "ttft_mean_ms", "ttft_p50_ms", "ttft_p99_ms", "tpot_mean_ms",
    "tpot_p99_ms", "e2e_p50_ms", "e2e_p99_ms", "accept_length", "requests", "errors", "valid", "invalid_reasons",
    "goodput_requests_per_s", "goodput_share",
)  # fmt: skip


def csv_lines(results: Sequence[ResultFile]) -> list[str]:
    """One line a point, empty where a figure is not known."""
    out = _Lines()
    writer = csv.writer(out)
    writer.writerow(CSV_HEAD)
    for result in results:
        for point in result.points:
            writer.writerow(_csv_row(result, point))
    return out.lines


def _csv_row(result: ResultFile, point: Point) -> list[object]:
    low, high = point.output_tokens_per_s_interval or (None, None)
    ttft, tpot, e2e = point.ttft_ms, point.tpot_ms, point.e2e_ms
    values: list[object] = [
        result.head.label, result.head.kind, point.concurrency, point.request_rate,
        point.output_tokens_per_s, low, high, point.total_tokens_per_s,
        ttft and ttft.mean, ttft and ttft.p50, ttft and ttft.p99, tpot and tpot.mean, tpot and tpot.p99,
        e2e and e2e.p50, e2e and e2e.p99, point.accept_length, point.requests, point.errors,
        str(point.valid).lower(), "; ".join(point.invalid_reasons),
        point.goodput_requests_per_s, point.goodput_share,
    ]  # fmt: skip
    return ["" if value is None else value for value in values]


def agreement_line(point: Point, other: ResultFile) -> str:
    """A point's whole-run throughput beside that of another client, which counts ramp and tail in."""
    twin = point_at(other, (point.concurrency, None))
    ours = point.whole_run_output_tokens_per_s
    theirs = twin.whole_run_output_tokens_per_s if twin is not None else None
    where = load_label((point.concurrency, None))
    if not ours or not theirs:
        return f"second opinion at {where}: none"
    ramp = "; starts spread by --ramp-s make a longer ramp" if (point.concurrency or 0) > 1 else ""
    return (
        f"second opinion at {where}: bench_serving {theirs:.1f} tok/s over the whole run, kitctl {ours:.1f} "
        f"({ours / theirs - 1:+.1%}{ramp})"
    )


def comparison_text(
    results: Sequence[ResultFile],
    found: Sequence[Difference],
    notes: Sequence[Finding],
    *,
    as_markdown: bool,
) -> Sequence[str]:
    """The comparison for a terminal or as Markdown. ``notes``: what else differs than the stack."""
    rows = throughput_rows(results)
    table = markdown_table(rows) if as_markdown else plain_table(rows)
    remarks = [
        *winner_lines(winners(results)),
        *difference_lines(found),
        *hole_lines(results),
        *wide_lines(results),
    ]
    if as_markdown:
        return [*table, "", *(f"- {line}" for line in [*remarks, *map(note_line, notes)])]
    return [*table, "", *remarks, *finding_lines(notes)]


def note_line(note: Finding) -> str:
    """A finding in one line, with what was seen and what to do."""
    return f"{note.severity.upper()} {note.code}: {note.cause} ({'; '.join(note.evidence)}); {note.remedy}"


def gate_lines(gate: Gate) -> Iterable[str]:
    """What a gate judged, what failed it, and what it could not judge and why."""
    loads = dict.fromkeys(load_label((one.concurrency, one.request_rate)) for one in gate.judged)
    judged = f"judged at {', '.join(loads)}" if loads else "nothing was judged"
    yield f"GATE {'passed' if gate.passed else 'FAILED'} (limit {gate.limit:.1%}): {judged}"
    for metric in Metric:
        yield from (f"GATE {line}" for line in difference_lines(gate.failed, metric))
    for one in gate.not_judged:
        where = load_label((one.concurrency, one.request_rate))
        mark = " FAILED" if one.fails else ""
        yield f"GATE{mark} {where}: {one.label}: {one.metric} not judged: {one.reason}"
    yield from (f"GATE FAILED {label}: {metric} was judged at no load" for label, metric in gate.blind)
    yield from (f"      do:   {remedy}" for remedy in dict.fromkeys(one.remedy for one in gate.not_judged))
