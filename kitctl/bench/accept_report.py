"""How does acceptance read on a terminal?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kitctl.bench.acceptance import Acceptance, Group
from kitctl.bench.text_report import number

BAR_WIDTH = 40


def acceptance_lines(points: Sequence[Acceptance]) -> tuple[str, ...]:
    """Lengths at each concurrency, by category, rates by place and the histogram of the first."""
    lines: list[str] = []
    for point in points:
        lines.append(f"C={point.concurrency:<4} all {_group(point.overall)}{_extra(point)}")
        lines.extend(f"       {name:12} {_group(group)}" for name, group in point.categories.items())
    if points and points[0].histogram:
        rates = ", ".join(
            f"{place}: {rate:.2f}" for place, rate in enumerate(points[0].position_rates, start=1)
        )
        lines.append(f"taken by place in the block: {rates}")
        lines.extend(_bars(points[0].histogram))
    return tuple(lines)


def _group(group: Group) -> str:
    interval = group.accept_length_interval
    spread = f" ({interval[0]:.2f}-{interval[1]:.2f})" if interval else ""
    return (
        f"{group.accept_length:.2f} tokens/step{spread}, mean of requests {group.accept_length_request_mean:.2f}, "
        f"{group.requests} requests, {group.verify_steps} steps"
    )


def _extra(point: Acceptance) -> str:
    by_drafts = number(point.accept_length_by_drafts, 2)
    counters = number(point.counter_accept_length, 2)
    failed = f", {point.errors} failed" if point.errors else ""
    return f"; by drafts {by_drafts}, by the server's counters {counters}{failed}"


def _bars(histogram: Sequence[int]) -> Iterable[str]:
    total = sum(histogram) or 1
    yield "steps by drafts taken:"
    for place, count in enumerate(histogram):
        yield f"  {place:2} {'#' * round(BAR_WIDTH * count / total):{BAR_WIDTH}} {count / total:.1%}"
