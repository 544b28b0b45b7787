"""How do points read on a terminal?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kitctl.bench.points import Point

_HEAD = (
    "load",
    "out tok/s",
    "95 % interval",
    "TTFT p50",
    "p99 ms",
    "TPOT mean",
    "p99 ms",
    "req",
    "err",
    "accept",
)


def point_lines(points: Sequence[Point]) -> tuple[str, ...]:
    """A table of points, then goodput where a level was given, what makes one invalid, what else is worth knowing."""
    rows = [_HEAD, *(_row(point) for point in points)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD))]
    table = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return (*table, *_remarks(points))


def load_name(point: Point) -> str:
    """``8`` streams, or ``2.5/s``."""
    return str(point.concurrency) if point.concurrency is not None else f"{point.request_rate:g}/s"


def _row(point: Point) -> tuple[str, ...]:
    interval = point.output_tokens_per_s_interval
    return (
        load_name(point),
        number(point.output_tokens_per_s),
        f"{interval[0]:.1f}-{interval[1]:.1f}" if interval else "-",
        number(point.ttft_ms.p50 if point.ttft_ms else None),
        number(point.ttft_ms.p99 if point.ttft_ms else None),
        number(point.tpot_ms.mean if point.tpot_ms else None, 2),
        number(point.tpot_ms.p99 if point.tpot_ms else None, 2),
        str(point.requests),
        str(point.errors),
        number(point.accept_length, 2),
    )


def number(value: float | None, digits: int = 1) -> str:
    """A figure, or ``-`` when it is not known."""
    return "-" if value is None else f"{value:.{digits}f}"


def goodput_text(point: Point) -> str | None:
    """How many requests a second met the service level, and their share; ``None`` where none was given."""
    if point.goodput_share is None:
        return None
    rate = number(point.goodput_requests_per_s, 2)
    return f"goodput {rate} req/s ({point.goodput_share:.0%} of the requests) within the service level"


def _remarks(points: Sequence[Point]) -> Iterable[str]:
    for point in points:
        if (goodput := goodput_text(point)) is not None:
            yield f"{load_name(point)}: {goodput}"
    for point in points:
        for reason in point.invalid_reasons:
            yield f"INVALID {load_name(point)}: {reason}"
    notes: dict[str, list[str]] = {}
    for point in points:
        for note in point.notes:
            notes.setdefault(note, []).append(load_name(point))
    for note, loads in notes.items():
        yield f"note ({', '.join(loads)}): {note}"
