"""What did ``kitctl accept`` find, as JSON and on a terminal?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kitctl.bench.acceptance import DEFINITION, Acceptance, Group
from kitctl.bench.parity import Parity, parity_lines
from kitctl.bench.speedup import SpeedModel, model_lines
from kitctl.bench.text_report import number
from kitctl.finding import Finding, blocking, finding_lines

BAR_WIDTH = 40


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """All that one run found. ``predicted``: speed-ups to expect by concurrency, from a sweep without drafter alone."""

    points: tuple[Acceptance, ...]
    parity: Parity | None
    model: SpeedModel | None
    predicted: Mapping[int, float]
    findings: tuple[Finding, ...]

    @property
    def failed(self) -> bool:
        """Whether the gate fails: a blocking finding, or answers that the drafter changed."""
        return bool(blocking(self.findings)) or (self.parity is not None and self.parity.verdict == "broken")


def outcome_data(outcome: Outcome) -> dict[str, Any]:
    """The versioned object that ``kitctl accept --json`` prints, without the server's name."""
    return {
        "schema": "kitctl.accept/1",
        "definition": DEFINITION,
        "points": msgspec.to_builtins(outcome.points),
        "parity": msgspec.to_builtins(outcome.parity),
        "speedup": msgspec.to_builtins(outcome.model),
        "predicted_speedup": {str(concurrency): value for concurrency, value in outcome.predicted.items()},
        "findings": msgspec.to_builtins(outcome.findings),
    }


def outcome_lines(outcome: Outcome) -> tuple[str, ...]:
    """The same for a person."""
    lines = [DEFINITION, *acceptance_lines(outcome.points)]
    lines += parity_lines(outcome.parity) if outcome.parity is not None else ()
    lines += model_lines(outcome.model) if outcome.model is not None else ()
    lines += [
        f"C={concurrency}: {value:.2f}x is to be expected" for concurrency, value in outcome.predicted.items()
    ]
    return (*lines, *finding_lines(outcome.findings))


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
