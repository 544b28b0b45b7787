"""The steady window counts whole requests between ramp and tail, and nothing else."""

import pytest

from kitctl.bench.answers import Record, without_key
from kitctl.bench.measure import Asked, measure
from kitctl.bench.points import point_of

MS = 1_000_000


def request(number: int, stream: int, begin_ms: float, *, tokens: int = 10, ttft: float = 100, step: float = 10,
            error: str | None = None) -> Record:  # fmt: skip
    steps = tuple((int((begin_ms + ttft + step * n) * MS), 1.0) for n in range(tokens))
    return Record(
        request=number,
        stream=stream,
        begun_ns=int(begin_ms * MS),
        sent_ns=int(begin_ms * MS),
        end_ns=steps[-1][0] if steps else int((begin_ms + ttft) * MS),
        steps=() if error else steps,
        prompt_tokens=20,
        output_tokens=None if error else tokens,
        finish=None if error else "length",
        error=error,
    )


def asked(concurrency: int) -> Asked:
    return Asked(concurrency=concurrency, request_rate=None, repeat=0, seed=0, output_tokens=10)


def sweep(concurrency: int, *, stagger_ms: float, rounds: int = 5) -> list[Record]:
    cycle = 100 + 9 * 10
    return [
        request(n * concurrency + s, s, s * stagger_ms + n * cycle)
        for s in range(concurrency)
        for n in range(rounds)
    ]


@pytest.mark.parametrize("stagger_ms", [0, 7, 47.5, 100])
@pytest.mark.parametrize("concurrency", [1, 2, 4])
def test_rate_is_exact_for_any_stagger(concurrency: int, stagger_ms: float) -> None:
    repeat = measure(sweep(concurrency, stagger_ms=stagger_ms), asked(concurrency))
    point = point_of([repeat], model="demo", served=None, is_chat=False)
    assert point.output_tokens_per_s == pytest.approx(concurrency * 10 / 0.190)
    assert point.total_tokens_per_s == pytest.approx(concurrency * 30 / 0.190)
    assert point.ttft_ms is not None
    assert point.ttft_ms.mean == 100
    assert point.tpot_ms is not None
    assert point.tpot_ms.p99 == 10


def test_slow_tail_is_outside_the_window() -> None:
    """One stream's last request hangs alone for 10 s; whole-run throughput falls, the steady rate does not."""
    records = sweep(4, stagger_ms=10)
    records[-1] = request(19, 3, 30 + 4 * 190, step=1000)
    repeat = measure(records, asked(4))
    point = point_of([repeat], model="demo", served=None, is_chat=False)
    assert point.output_tokens_per_s == pytest.approx(4 * 10 / 0.190)
    assert point.whole_run_output_tokens_per_s is not None
    assert point.whole_run_output_tokens_per_s < 25


def test_failed_requests_bring_no_tokens_but_take_time() -> None:
    records = sweep(1, stagger_ms=0)
    records[2] = request(2, 0, 380, error="http-500")
    repeat = measure(records, asked(1))
    assert (repeat.errors, repeat.error_kinds, repeat.answered) == (1, {"http-500": 1}, 4)
    point = point_of([repeat], model="demo", served=None, is_chat=False)
    assert point.output_tokens_per_s == pytest.approx(40 / 0.950)
    assert point.valid is False


def test_early_stops_are_counted() -> None:
    records = [request(n, 0, n * 130.0, tokens=4) for n in range(6)]
    repeat = measure(records, asked(1))
    assert repeat.stopped_early == 6
    assert repeat.output_tokens == 24


def test_token_gaps_weigh_by_tokens_and_chunk_gaps_do_not() -> None:
    record = Record(
        request=0, stream=0, begun_ns=0, sent_ns=0, end_ns=300 * MS, output_tokens=12, finish="length",
        steps=((100 * MS, 4.0), (140 * MS, 4.0), (180 * MS, 4.0)),
    )  # fmt: skip
    point = point_of([measure([record], asked(1))], model="demo", served=None, is_chat=False)
    assert point.itl_ms is not None
    assert point.itl_ms.mean == pytest.approx(10, rel=0.003)
    assert point.chunk_gap_ms is not None
    assert point.chunk_gap_ms.mean == pytest.approx(40, rel=0.003)
    assert point.tokens_per_chunk == 4


def test_no_records() -> None:
    repeat = measure([], asked(1))
    assert (repeat.requests, repeat.window_s, repeat.streams) == (0, 0, ())


@pytest.mark.parametrize("cut", [None, 20, 24])
def test_what_a_server_says_is_one_line_without_the_key(cut: int | None) -> None:
    said = "no such\nkey:\x1b sk-abcdefghijkl"[:cut]
    assert without_key(said, "sk-abcdefghijkl") == (
        "no such key: ***" if cut != 20 else "no such key: sk-abc"
    )
    assert without_key("a  b", None) == "a b"
