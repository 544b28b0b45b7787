"""Draw curves, bars and spans as inline SVG that takes its colours from the page. Nothing but text is made."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 620, 340
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 16, 46
MARKERS = "osd^vx"
DASHES = ("", "7 3", "2 3", "9 3 2 3")


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One measured point: place, value, its interval, what a reader sees when pointing at it; hollow when invalid."""

    x: float
    y: float
    tip: str
    low: float | None = None
    high: float | None = None
    hollow: bool = False


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One result's marks. ``place`` chooses colour, marker and dash, the same in every plot of a page."""

    label: str
    place: int
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Axis:
    """Maps values to pixels; logarithmic with base 2 or linear from 0."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    def at(self, value: float) -> float:
        """The pixel of a value."""
        low, high, value = (
            (math.log2(self.low), math.log2(self.high), math.log2(max(value, self.low)))
            if self.log
            else (self.low, self.high, value)
        )
        return self.start + (self.end - self.start) * (value - low) / ((high - low) or 1.0)


def nice_ticks(high: float, count: int = 5) -> list[float]:
    """Round steps from 0 to at least ``high``."""
    if high <= 0:
        return [0.0, 1.0]
    rough = high / count
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    return [step * number for number in range(math.ceil(high / step - 1e-9) + 1)]


def line_plot(curves: Sequence[Curve], *, x_title: str, y_title: str, log_x: bool = True) -> str:
    """Curves over x, with intervals as bars and a native tooltip on each mark. Empty text without marks."""
    marks = [mark for curve in curves for mark in curve.marks]
    if not marks:
        return ""
    xs = sorted({mark.x for mark in marks})
    y_ticks = nice_ticks(max(mark.high if mark.high is not None else mark.y for mark in marks))
    x_ticks = xs if log_x else nice_ticks(xs[-1])
    low_x = xs[0] / 1.15 if log_x else 0.0
    high_x = xs[-1] * 1.15 if log_x else x_ticks[-1]
    across = Axis(low_x, high_x, LEFT, WIDTH - RIGHT, log_x)
    up = Axis(0.0, y_ticks[-1], HEIGHT - BOTTOM, TOP, False)
    parts = [*_grid(across, up, x_ticks, y_ticks), *_titles(x_title, y_title)]
    for curve in curves:
        parts.extend(_curve(curve, across, up))
    return _svg(parts, f"{y_title} over {x_title}")


def _svg(parts: Iterable[str], label: str, height: int = HEIGHT) -> str:
    inner = "\n".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">\n{inner}\n</svg>'


def _grid(across: Axis, up: Axis, x_ticks: Sequence[float], y_ticks: Sequence[float]) -> Iterable[str]:
    for tick in y_ticks:
        y = up.at(tick)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>'
    last = -100.0
    for tick in x_ticks:
        x = across.at(tick)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
        if x - last > 26:
            last = x
            yield (
                f'<text class="tick" x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tick:g}</text>'
            )


def _titles(x_title: str, y_title: str) -> Iterable[str]:
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield f'<text class="axis" x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_title)}</text>'
    y = (TOP + HEIGHT - BOTTOM) / 2
    yield (
        f'<text class="axis" transform="translate(14 {y}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_title)}</text>"
    )


def _curve(curve: Curve, across: Axis, up: Axis) -> Iterable[str]:
    place = [(across.at(mark.x), up.at(mark.y)) for mark in curve.marks]
    path = " ".join(f"{'M' if n == 0 else 'L'}{x:.1f} {y:.1f}" for n, (x, y) in enumerate(place))
    dash = DASHES[curve.place // 2 % len(DASHES)]
    yield f'<path class="line c{curve.place % 8}" d="{path}" stroke-dasharray="{dash}"/>'
    for mark, (x, y) in zip(curve.marks, place, strict=True):
        if mark.low is not None and mark.high is not None:
            low, high = up.at(max(0.0, mark.low)), up.at(mark.high)
            yield f'<line class="bar c{curve.place % 8}" x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>'
        kind = "hollow" if mark.hollow else "mark"
        shape = marker(MARKERS[curve.place % len(MARKERS)], x, y)
        yield f'<path class="{kind} c{curve.place % 8}" d="{shape}"><title>{escape(mark.tip)}</title></path>'


def marker(kind: str, x: float, y: float, size: float = 4.5) -> str:
    """The outline of a marker: circle, square, diamond, triangles, cross."""
    shapes = {
        "s": f"M{x - size:.1f} {y - size:.1f}h{2 * size}v{2 * size}h{-2 * size}z",
        "d": f"M{x:.1f} {y - 1.3 * size:.1f}l{1.3 * size} {1.3 * size}l{-1.3 * size} {1.3 * size}"
        f"l{-1.3 * size} {-1.3 * size}z",
        "^": f"M{x:.1f} {y - 1.2 * size:.1f}l{1.2 * size} {2.1 * size}h{-2.4 * size}z",
        "v": f"M{x:.1f} {y + 1.2 * size:.1f}l{1.2 * size} {-2.1 * size}h{-2.4 * size}z",
        "x": f"M{x - size:.1f} {y - size:.1f}l{2 * size} {2 * size}m0 {-2 * size}l{-2 * size} {2 * size}",
    }
    circle = f"M{x - size:.1f} {y:.1f}a{size} {size} 0 1 0 {2 * size} 0a{size} {size} 0 1 0 {-2 * size} 0z"
    return shapes.get(kind, circle)


def bar_plot(groups: Sequence[tuple[str, int, Sequence[float]]], *, x_title: str, y_title: str) -> str:
    """Groups of bars side by side: (label, place, values); bar n of every group stands at n."""
    most = max((len(values) for _, _, values in groups), default=0)
    high = max((value for _, _, values in groups for value in values), default=0.0)
    if not most or high <= 0:
        return ""
    ticks = nice_ticks(high)
    up = Axis(0.0, ticks[-1], HEIGHT - BOTTOM, TOP, False)
    across = Axis(-0.5, most - 0.5, LEFT, WIDTH - RIGHT, False)
    room = (across.at(1) - across.at(0)) * 0.8 / len(groups)
    parts = [*_grid(across, up, [float(n) for n in range(most)], ticks), *_titles(x_title, y_title)]
    for number, (label, place, values) in enumerate(groups):
        for at, value in enumerate(values):
            x = across.at(at) - room * len(groups) / 2 + room * number
            y = up.at(value)
            parts.append(
                f'<rect class="fill c{place % 8}" x="{x:.1f}" y="{y:.1f}" width="{room:.1f}" '
                f'height="{HEIGHT - BOTTOM - y:.1f}"><title>{escape(label)}: {value:.4g} at {at}</title></rect>'
            )
    return _svg(parts, f"{y_title} over {x_title}")


def span_plot(rows: Sequence[tuple[str, Sequence[tuple[str, float]]]], *, x_title: str) -> str:
    """One bar a row, cut into named spans of seconds that follow one another."""
    total = max((sum(seconds for _, seconds in spans) for _, spans in rows), default=0.0)
    if total <= 0:
        return ""
    ticks = nice_ticks(total)
    height = TOP + 34 * len(rows) + BOTTOM
    across = Axis(0.0, ticks[-1], 130, WIDTH - RIGHT, False)
    parts = []
    for tick in ticks:
        x = across.at(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{height - BOTTOM}"/>')
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{height - BOTTOM + 18}" text-anchor="middle">{tick:g}</text>'
        )
    for number, (label, spans) in enumerate(rows):
        y = TOP + 34 * number + 6
        parts.append(f'<text class="tick" x="122" y="{y + 16}" text-anchor="end">{escape(label)}</text>')
        at = 0.0
        for place, (name, seconds) in enumerate(spans):
            x, end = across.at(at), across.at(at + seconds)
            at += seconds
            parts.append(
                f'<rect class="span c{place % 8}" x="{x:.1f}" y="{y}" width="{max(0.5, end - x):.1f}" height="22">'
                f"<title>{escape(name)}: {seconds:.1f} s</title></rect>"
            )
            if end - x > 7 * len(name):
                parts.append(
                    f'<text class="inside" x="{(x + end) / 2:.1f}" y="{y + 15}" text-anchor="middle">'
                    f"{escape(name)}</text>"
                )
    parts.append(f'<text class="axis" x="{WIDTH / 2}" y="{height - 8}" text-anchor="middle">{x_title}</text>')
    return _svg(parts, x_title, height)
