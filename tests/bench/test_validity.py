"""Each rule refuses the point that it is for, says what was seen, and lets a good point pass."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from planted import CALM, GOOD

from kitctl.bench.bench_serving import read_bench_serving
from kitctl.bench.compare import comparison_data
from kitctl.bench.counters import Counters
from kitctl.bench.measure import Gpu, StreamRate
from kitctl.bench.points import point_of
from kitctl.bench.results import Head, ResultFile
from kitctl.bench.tables import comparison_text
from kitctl.bench.text_report import point_lines
from kitctl.bench.validity import TWO_REPEATS, Limits, invalid_reasons, notes_of, server_notes

CASES = Path(__file__).parent.parent / "cases" / "bench"


def reasons(*, model: str = "demo", served: tuple[str, ...] | None = ("demo",), is_chat: bool = False,
            **changes: Any) -> list[str]:  # fmt: skip
    repeat = msgspec.structs.replace(GOOD, **changes)
    return list(invalid_reasons([repeat], model=model, served=served, is_chat=is_chat, limits=Limits()))


def test_good_point_passes() -> None:
    assert reasons() == []
    assert reasons(served=None, server=None, health=None, cached_tokens=None) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"errors": 3, "error_kinds": {"http-500": 2, "timeout": 1}},
            "errors: 3 of 40 requests failed (http-500 x2, timeout x1)",
        ),
        (
            {"errors": 40, "error_kinds": {"http-400": 40}, "first_error": "too long"},
            "errors: 40 of 40 requests failed (http-400 x40); the first: too long",
        ),
        (
            {"unknown_tokens": 40, "output_tokens": 0},
            "no-usage: the server gave no token count for 40 answers",
        ),
        ({"zero_tokens": 2}, "zero-tokens: 2 answers held no token"),
        (
            {"not_streamed": 40},
            "not-streamed: 40 answers came in one piece, so the time to the first token is unknown",
        ),
        ({"models": {"other": 40}}, "wrong-model: other answered, demo was asked for"),
        ({"served": ("a", "b")}, "wrong-model: the server serves a, b, not demo"),
        (
            {"cached_tokens": 400},
            "cached-tokens: 10.0% of the prompt tokens came from the prefix cache (limit 1.0%)",
        ),
        (
            {
                "cached_tokens": None,
                "server": Counters(generation_tokens=4000, prompt_tokens=4000, cached_tokens=2000),
            },
            "cached-tokens: 50.0% of the prompt tokens came from the prefix cache (limit 1.0%)",
        ),
        (
            {"server": Counters(generation_tokens=4100)},
            "server-counters: the client counted -2.4% tokens against the server's own counter",
        ),
        (
            {"health": msgspec.structs.replace(CALM, cpu_share=0.97)},
            "client-busy: the load client used 97% of a core and may be the bottleneck",
        ),
        (
            {"health": msgspec.structs.replace(CALM, lag_mean_ms=5.5)},
            "client-late: the load client ran 5.5 ms late on average (limit 3.0)",
        ),
        ({"late_ms": 80.0}, "schedule-late: requests went out 80 ms after their time (99th percentile)"),
        (
            {"window_completed": 9},
            "short-window: 9 requests completed while all 8 streams were busy, 16 are needed "
            "(ask for more requests a stream)",
        ),
    ],
    ids=lambda value: value.split(":")[0] if isinstance(value, str) else "",
)
def test_rule(changes: dict[str, Any], reason: str) -> None:
    assert reasons(**changes) == [reason]


def test_chat_requests_may_share_their_template() -> None:
    """40 requests of 100 tokens each: 20 cached tokens a request are the template's head, 60 are not."""
    assert reasons(is_chat=True, cached_tokens=20 * 40) == []
    assert reasons(is_chat=True, cached_tokens=60 * 40) == [
        "cached-tokens: 60.0% of the prompt tokens came from the prefix cache (limit 33.0%)"
    ]


def test_lag_is_judged_against_the_first_token() -> None:
    late = msgspec.structs.replace(CALM, lag_mean_ms=5.5)
    assert reasons(health=late, ttft_ms=(2000.0,) * 24) == []


def test_short_repeats_say_nothing_of_the_clients_share() -> None:
    assert reasons(health=msgspec.structs.replace(CALM, cpu_share=0.97), duration_s=0.4) == []


def test_notes() -> None:
    odd = msgspec.structs.replace(
        GOOD, stopped_early=5, window_completed=20, server=None, cached_tokens=None,
        gpu=Gpu(power_w=600, temperature_c=80, clock_min_mhz=1200, throttled=("power cap",)),
    )  # fmt: skip
    assert list(notes_of([odd], Limits(), rate=100.0, interval=(99.0, 101.0))) == [
        "5 answers stopped before the length asked for; tokens are counted as sent",
        "1 repeat(s): the interval is a lower bound of the true uncertainty",
        "fewer than three completions a stream in the steady window",
        "the server publishes no token counter: no cross-check (start it with --enable-metrics)",
        "the server does not tell cached tokens",
        "GPU clocks were held back: power cap",
    ]
    assert list(notes_of([GOOD] * 3, Limits(), rate=100.0, interval=(76.0, 125.0))) == []
    assert list(notes_of([GOOD] * 3, Limits(), rate=100.0, interval=(1.0, 199.0))) == [
        "the interval is 198% of the rate wide: smaller differences are noise (raise --repeats)"
    ]
    assert list(notes_of([GOOD], Limits(), rate=100.0, interval=None)) == [
        "one repeat gives no interval (raise --repeats)"
    ]
    assert list(
        notes_of([msgspec.structs.replace(odd, answered=0)], Limits(), rate=100.0, interval=None)
    ) == ["GPU clocks were held back: power cap"]


def test_notes_on_the_servers_own_limits() -> None:
    server = {"max_running_requests": 16, "speculative_algorithm": "DFLASH"}
    assert list(server_notes(8, server, "kit")) == []
    assert list(server_notes(32, server, "random")) == [
        "the server runs 16 requests at once, the others wait: the plateau above is its limit, not its speed",
        "a drafter takes random token ids as it takes no real text: measure it with --dataset kit or a file",
    ]
    assert list(server_notes(32, None, "random")) == []


@pytest.mark.parametrize(
    ("tokens", "is_wide"), [((100, 300), True), ((100, 101), False), ((100, 300, 200), False)]
)
def test_a_wide_interval_of_two_repeats_is_told_by_the_point(tokens: tuple[int, ...], is_wide: bool) -> None:
    """The point carries the note into JSON; both tables show it, once."""
    streams = [StreamRate(output_tokens=count, prompt_tokens=100, completed=3, seconds=1) for count in tokens]
    repeats = [msgspec.structs.replace(GOOD, streams=(stream,)) for stream in streams]
    point = point_of(repeats, model="demo", served=None, is_chat=False)
    assert point.notes.count(TWO_REPEATS) == is_wide
    results = [ResultFile(head=Head(label="a"), points=(point,))]
    assert [line for line in point_lines([point]) if TWO_REPEATS in line] == [
        f"note (8): {TWO_REPEATS}"
    ] * is_wide
    told = [line for line in comparison_text(results, (), (), as_markdown=False) if TWO_REPEATS in line]
    assert told == [f"a C=8: {TWO_REPEATS}"] * is_wide
    assert str(comparison_data(results, (), (), {})).count(TWO_REPEATS) == is_wide


def test_a_wide_interval_of_another_client_is_told_too() -> None:
    line = (CASES / "bench-serving-ar-c8.jsonl").read_text().splitlines()[0]
    slow = json.loads(line) | {"output_throughput": 1000.0}
    (point,) = read_bench_serving("x", f"{line}\n{json.dumps(slow)}\n", allowed=()).points
    assert point.notes[0] == TWO_REPEATS


def test_repeats_of_two_runs_of_a_stack_are_told() -> None:
    repeats = [msgspec.structs.replace(GOOD, repeat=number, run=run) for number, run in enumerate("aab")]
    told = "the stack was started anew between its repeats, so they are of 2 runs: a, b"
    assert told in list(notes_of(repeats, Limits(), rate=None, interval=None))
    assert not [note for note in notes_of(repeats[:2], Limits(), rate=None, interval=None) if "anew" in note]
