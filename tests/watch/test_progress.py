"""Time left, deadlines and stalls follow from what is seen, not from fixed times."""

from dataclasses import replace

import pytest

from kitctl.watch.engine_log import Bar, LoadProgress, Phase
from kitctl.watch.progress import (
    Estimate,
    Motion,
    Pulse,
    Sample,
    derive_deadline_s,
    estimate,
    feel,
    judge_motion,
    motion_text,
)

LAST = {"started": 40.0, "weights": 200.0, "graphs": 12.0, "warm_up": 3.0, "image": 99.0}


def loading(done: int, total: int) -> LoadProgress:
    return LoadProgress(
        phase=Phase.WEIGHTS,
        transitions=((Phase.STARTED, 0.0), (Phase.WEIGHTS, 40.0)),
        shards=Bar(done=done, total=total),
    )


def test_shards_give_rate_and_time_left() -> None:
    got = estimate(loading(16, 64), now_s=90.0, weight_bytes=640_000_000_000)
    assert got == Estimate(left_s=150.0, by="shards", fraction=0.25, bytes_per_s=3_200_000_000.0)


def test_the_last_load_adds_what_comes_after_the_weights() -> None:
    got = estimate(loading(16, 64), now_s=90.0, last_load=LAST)
    assert got == Estimate(left_s=165.0, by="shards and the last load", fraction=0.25)


def test_without_shards_the_last_load_is_the_yardstick() -> None:
    starting = LoadProgress(phase=Phase.STARTED, transitions=((Phase.STARTED, 0.0),))
    assert estimate(starting, now_s=10.0, last_load=LAST) == Estimate(left_s=245.0, by="the last load")
    assert estimate(starting, now_s=10.0) == Estimate(left_s=None, by="nothing to compare with yet")


def test_a_load_slower_than_the_last_never_has_negative_time_left() -> None:
    starting = LoadProgress(phase=Phase.WARM_UP, transitions=((Phase.WARM_UP, 0.0),))
    assert estimate(starting, now_s=500.0, last_load={"warm_up": 3.0}).left_s == 0.0


def beat(*samples: Sample) -> Pulse:
    pulse = Pulse(begun_s=0.0, line_s=0.0)
    for sample in samples:
        pulse = feel(pulse, sample)
    return pulse


QUIET = Sample(at_s=1.0, messages=5, read_bytes=0, memory_mib=100)


@pytest.mark.parametrize(
    ("later", "motion"),
    [
        (replace(QUIET, at_s=300.0, messages=6), Motion.MOVING),
        (replace(QUIET, at_s=300.0, read_bytes=10**9), Motion.MOVING),
        (replace(QUIET, at_s=300.0, memory_mib=900), Motion.MOVING),
        (replace(QUIET, at_s=300.0, memory_mib=101), Motion.STALLED),
        (replace(QUIET, at_s=300.0, programs=("python3", "cicc")), Motion.COMPILING),
        (replace(QUIET, at_s=300.0), Motion.STALLED),
        (replace(QUIET, at_s=100.0), Motion.QUIET),
        (replace(QUIET, at_s=40.0), Motion.MOVING),
    ],
)
def test_a_line_a_byte_or_memory_is_motion_and_a_compiler_is_no_stall(later: Sample, motion: Motion) -> None:
    assert judge_motion(beat(QUIET, later), now_s=later.at_s) is motion


def test_many_small_steps_add_up_to_motion() -> None:
    steps = [replace(QUIET, at_s=float(at), memory_mib=100 + at) for at in range(0, 301, 10)]
    assert judge_motion(beat(*steps), now_s=300.0) is Motion.MOVING


def test_what_is_seen_is_told() -> None:
    pulse = beat(QUIET, replace(QUIET, at_s=50.0, memory_mib=900))
    assert motion_text(pulse, now_s=80.0) == "last line 79 s ago, last memory taken 30 s ago"
    assert motion_text(beat(QUIET, replace(QUIET, at_s=9.0, programs=("ptxas",))), now_s=10.0) == (
        "ptxas runs: kernels are being compiled"
    )


@pytest.mark.parametrize(
    ("weight_bytes", "last_total_s", "deadline_s"),
    [
        (None, None, 900.0),
        (595_000_000_000, None, 595_000_000_000 / 150_000_000 + 900.0),
        (595_000_000_000, 270.0, 900.0),
        (595_000_000_000, 900.0, 2700.0),
    ],
)
def test_the_deadline_follows_bytes_and_history(
    weight_bytes: int | None, last_total_s: float | None, deadline_s: float
) -> None:
    got = derive_deadline_s(weight_bytes=weight_bytes, last_total_s=last_total_s, start_period_s=900.0)
    assert got == deadline_s
