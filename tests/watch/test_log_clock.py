"""A line is placed where it was written, whatever the host's clock does meanwhile."""

from kitctl.watch.log_clock import LogClock, place_line

OPENED = LogClock(engine_s=1_000_000.0, own_s=50.0)


def written(*lines: tuple[float | None, float]) -> list[float]:
    """When each line was written; a line is its stamp and the second at which it came."""
    clock, found = OPENED, []
    for stamp_s, at_s in lines:
        clock = place_line(clock, stamp_s, at_s=at_s)
        found.append(clock.logged_s)
    return found


def test_lines_that_were_there_lie_as_far_back_as_their_stamps() -> None:
    assert written((999_900.0, 50.1), (999_970.0, 50.1)) == [-50.0, 20.0]


def test_lines_that_come_were_written_when_they_came() -> None:
    assert written((999_990.0, 50.1), (1_000_000.5, 50.7), (1_000_010.0, 60.4)) == [40.0, 50.7, 60.4]


def test_a_clock_that_is_set_back_moves_no_later_line() -> None:
    assert written((1_000_001.0, 51.0), (996_400.0, 52.0)) == [51.0, 52.0]


def test_no_line_lies_before_its_forerunner() -> None:
    assert written((999_990.0, 50.1), (999_000.0, 50.1)) == [40.0, 40.0]


def test_a_line_without_a_stamp_was_written_when_it_came() -> None:
    assert written((None, 51.0)) == [51.0]
