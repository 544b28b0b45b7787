"""A start is given up at the first fatal line, at the end of the process, at a stall, or at its deadline."""

from dataclasses import replace

import pytest

from kitctl.edge.failure_book import failure_book
from kitctl.watch.progress import Sample
from kitctl.watch.start import (
    StartState,
    Verdict,
    Yardstick,
    judge_start,
    phase_lines,
    see_end,
    see_line,
    see_sample,
    verdict_words,
)

BOOK = failure_book()
FATAL = "[2026-11-29 12:45:55 TP3] Scheduler hit an exception: Traceback (most recent call last):"


def begun(*lines: tuple[float, str], **changes: object) -> StartState:
    state = StartState(begun_s=0.0, deadline_s=900.0)
    state = replace(state, **changes)  # type: ignore[arg-type]
    for at_s, line in lines:
        state = see_line(state, line, at_s=at_s, book=BOOK)
    return state


@pytest.mark.parametrize(
    ("state", "now_s", "verdict"),
    [
        (begun((1.0, "server_args=ServerArgs(")), 2.0, Verdict.WAIT),
        (begun((1.0, FATAL)), 1.4, Verdict.WAIT),
        (begun((1.0, FATAL)), 1.8, Verdict.CRASHED),
        (begun((1.0, FATAL), (2.9, "  File x")), 3.1, Verdict.CRASHED),
        (see_end(begun(), 137), 0.5, Verdict.CRASHED),
        (begun((1.0, "INFO:     Uvicorn running on http://0.0.0.0:30000")), 2.0, Verdict.ASK),
        (begun((1.0, "server_args=ServerArgs(")), 901.0, Verdict.TOO_LATE),
        (begun((1.0, "INFO:     Uvicorn running on http://0.0.0.0:30000")), 901.0, Verdict.TOO_LATE),
    ],
    ids=["loading", "last-words", "quiet", "chatty", "ended", "listens", "late", "late-though-it-listens"],
)
def test_verdicts(state: StartState, now_s: float, verdict: Verdict) -> None:
    assert judge_start(state, now_s=now_s) is verdict


def test_a_stall_is_told_and_then_a_verdict() -> None:
    state = begun((1.0, "server_args=ServerArgs("))
    state = see_sample(state, Sample(at_s=2.0, messages=0, memory_mib=10))
    state = see_sample(state, Sample(at_s=100.0, messages=0, memory_mib=10))
    assert state.told == ("quiet: last line 98 s ago",)
    assert judge_start(state, now_s=100.0) is Verdict.WAIT
    state = see_sample(state, Sample(at_s=300.0, messages=0, memory_mib=10))
    assert judge_start(state, now_s=300.0) is Verdict.STALLED
    assert verdict_words(state, Verdict.STALLED, now_s=300.0).startswith(
        "stalled in phase started: last line"
    )


def test_a_compiler_that_runs_is_no_stall() -> None:
    state = begun((1.0, "server_args=ServerArgs("))
    state = see_sample(state, Sample(at_s=2.0, messages=0))
    state = see_sample(state, Sample(at_s=700.0, messages=0, programs=("python3", "cicc")))
    assert state.told == ("compiling: cicc runs: kernels are being compiled",)
    assert judge_start(state, now_s=700.0) is Verdict.WAIT


def test_shards_are_told_with_rate_and_time_left() -> None:
    yard = Yardstick(weight_bytes=64_000_000_000, last_load={"weights": 60.0, "graphs": 12.0})
    state = begun(
        (10.0, "[2026-11-29 12:45:55] Load weight begin. avail mem=94.1 GB"),
        (20.0, "Loading safetensors checkpoint shards:  25% Completed | 16/64 [00:10<00:30,  1.6it/s]"),
        yardstick=yard,
    )
    assert state.told == ("weights: shard 16 of 64, 1.60 GB/s, about 42 s left by shards and the last load",)
    assert phase_lines(state, now_s=25.0) == [("imports", 10.0), ("weights", 15.0)]


def test_the_silence_before_the_first_word_is_told_where_the_start_was_seen() -> None:
    """25 of the 100 s of a start on an H200 were Python's imports, of which the log says nothing."""
    word = "[2026-11-29 12:45:55] Init torch distributed begin."
    assert begun((24.9, word)).told[0] == "imports: 24.9 s"
    assert phase_lines(begun((24.9, word)), now_s=26.0) == [("imports", 24.9), ("distributed", 1.1)]
    late = begun((24.9, word), begun_s=60.0)
    assert phase_lines(late, now_s=26.0) == [("distributed", 1.1)]
    assert not any(line.startswith("imports") for line in late.told)


def test_each_rank_is_told_when_its_weights_are_in() -> None:
    stamp = "[2026-11-29 12:45:55 TP{} EP{}]"
    lines = [
        *((10.0, f"{stamp.format(n, n)} Load weight begin. avail mem=94.1 GB") for n in range(2)),
        (
            19.0,
            f"{stamp.format(1, 1)} Load weight end. elapsed=9.00 s, type=X, avail mem=9 GB, mem usage=8 GB.",
        ),
    ]
    state = begun(*lines)
    assert state.told == ("weights: TP1 EP1 after 9.0 s (1 of 2 ranks)",)
    assert begun((1.0, "[2026-11-29 12:45:55] Load weight begin. avail mem=94.1 GB"), lines[2]).told == ()


def test_a_replayed_log_tells_what_the_phases_took_then() -> None:
    """All lines come at once; each was written earlier, and what was left then is past."""
    lines = (
        (0.0, "[2026-11-29 12:45:55] Load weight begin. avail mem=94.1 GB"),
        (10.0, "Loading safetensors checkpoint shards:  25% Completed | 16/64 [00:10<00:30,  1.6it/s]"),
        (40.0, "[2026-11-29 12:46:35] Load weight end. elapsed=40.00 s, type=X, avail mem=30.0 GB"),
        (41.0, "[2026-11-29 12:46:36] KV Cache is allocated. #tokens: 100, KV size: 1.0 GB"),
    )
    state, told = begun(), []
    for logged_s, line in lines:
        state = see_line(state, line, at_s=100.0, logged_s=logged_s, book=BOOK)
        told += state.told
    assert told[:2] == ["weights ...", "weights: shard 16 of 64"]
    assert "weights: 41.0 s" in told
    assert judge_start(state, now_s=100.0) is Verdict.WAIT
