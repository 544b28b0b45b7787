"""The page is whole, needs nothing else, and shows the same figures as the JSON."""

import re
from html.parser import HTMLParser
from importlib.resources import files

from planted import planted_point, planted_result

from kitctl.bench.html_report import page
from kitctl.bench.results import ResultFile

CSS = files("kitctl.data").joinpath("report.css").read_text(encoding="utf-8")
PHASES = [
    {"name": "weights", "seconds": 95.2},
    {"name": "graphs", "seconds": 61.0},
    {"name": "warm-up", "seconds": 4.1},
]
ACCEPT = {"label": "ep8-dflash", "points": [{"histogram": [5, 8, 10, 14, 12, 9, 8, 34]}]}


def results() -> list[ResultFile]:
    plain = planted_result(
        "ep8", {1: 65.2, 32: 624.1, 64: 935.6, 128: 1416.9, 256: 1492.5}, run_record={"phases": PHASES}
    )
    drafted = planted_result("ep8-dflash <b>", {1: 86.4, 32: 700.2, 64: 890.7, 128: 1100.3}, error=0.04)
    bad = planted_point(256, 1146.0, invalid_reasons=("errors: 9 of 99 requests failed (timeout x9)",))
    return [plain, ResultFile(head=drafted.head, points=(*drafted.points, bad))]


class Reader(HTMLParser):
    """Collects the figures of table rows and checks that tags are closed in order."""

    VOID = frozenset({"meta", "br", "line", "path", "rect"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: dict[str, list[list[float]]] = {}
        self.links: list[str] = []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in self.VOID

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)
        if tag == "tr" and "data-table" in given:
            self.rows.setdefault(given["data-table"] or "", []).append([])
            self.current = self.rows[given["data-table"] or ""][-1]
        if tag == "td" and "data-value" in given:
            self.current.append(float(given["data-value"] or "nan"))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def test_figures_are_those_of_the_results() -> None:
    found = results()
    reader = read(page(found, css=CSS, acceptances=[ACCEPT], made_by="kitctl"))
    assert reader.rows["throughput"] == [[p.output_tokens_per_s for p in result.points] for result in found]
    points = [point for result in found for point in result.points]
    for row, point in zip(reader.rows["points"], points, strict=True):
        assert point.ttft_ms is not None and point.tpot_ms is not None and point.e2e_ms is not None
        assert row == [
            point.output_tokens_per_s, point.ttft_ms.p50, point.ttft_ms.p90, point.ttft_ms.p99,
            point.tpot_ms.mean, point.tpot_ms.p99, point.e2e_ms.p50, point.e2e_ms.p99, point.requests, point.errors,
        ]  # fmt: skip
    assert len(reader.rows["changes"]) == 4


def test_page_needs_nothing_else() -> None:
    text = page(results(), css=CSS, acceptances=[ACCEPT], made_by="kitctl")
    assert read(text).links == []
    assert "url(" not in text and "@import" not in text and "<script" not in text


def test_every_panel_is_there_and_text_is_escaped() -> None:
    text = page(results(), css=CSS, acceptances=[ACCEPT], made_by="kitctl")
    captions = re.findall(r"<figcaption>(.*?) <span>", text)
    assert captions == [
        "Throughput", "Time to first token", "Time to first token", "Time per output token", "Trade-off",
        "Drafts taken a step", "Start",
    ]  # fmt: skip
    assert "ep8-dflash &lt;b&gt;" in text and "ep8-dflash <b>" not in text
    assert "C=256: INVALID errors: 9 of 99 requests failed (timeout x9)" in text


def test_one_result_alone_has_no_comparison() -> None:
    reader = read(page(results()[:1], css=CSS, made_by="kitctl"))
    assert set(reader.rows) == {"throughput", "points"}
