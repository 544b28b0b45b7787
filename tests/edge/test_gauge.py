"""Progress is told while it happens, and what was there already raises no rate."""

import time

from kitctl.edge.gauge import Gauge, telling


def test_bytes_that_were_there_count_as_done_and_not_as_speed() -> None:
    gauge = Gauge("org/x", 1000)
    gauge.had(400)
    assert gauge.line() == "org/x 400 B of 1.00 kB (40 %), no byte is coming"
    gauge.came(100)
    assert gauge.came_bytes == 100
    assert gauge.line().startswith("org/x 500 B of 1.00 kB (50 %), ")
    gauge.came(-100)
    assert gauge.line().startswith("org/x 400 B of 1.00 kB (40 %), ")


def test_lines_are_told_from_time_to_time_until_the_block_ends() -> None:
    lines: list[str] = []
    gauge = Gauge("org/x", 10)
    with telling(gauge.line, lines.append, every_s=0.02):
        while not lines:
            time.sleep(0.01)
    told = len(lines)
    time.sleep(0.05)
    assert (len(lines), lines[0]) == (told, "org/x 0 B of 10 B (0 %), no byte is coming")
