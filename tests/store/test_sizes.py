"""Bytes, times and progress as a person reads them."""

import pytest

from kitctl.store.progress import progress_text
from kitctl.store.sizes import duration_text, size_text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (6_957_847_019, "6.96 GB"), (99_950_000, "100 MB"),
        (595_175_000_000, "595 GB"), (999_600_000, "1.00 GB"), (12_345_678, "12.3 MB"), (10**19, "10000 PB"),
    ],
)  # fmt: skip
def test_sizes_have_three_digits(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (42, "42 s"), (200, "3 min 20 s"), (7500, "2 h 05 min"), (3599.6, "1 h 00 min")],
)
def test_durations_have_two_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_progress_names_rate_and_time_left() -> None:
    text = progress_text(verb="org/x", done_bytes=120 * 10**9, total_bytes=595 * 10**9, bytes_per_s=1.2e9)
    assert text == "org/x 120 GB of 595 GB (20 %), 1.20 GB/s, 6 min 36 s left"


def test_progress_says_when_nothing_comes() -> None:
    text = progress_text(verb="org/x", done_bytes=0, total_bytes=0, bytes_per_s=0)
    assert text == "org/x 0 B of 0 B (100 %), no byte is coming"
