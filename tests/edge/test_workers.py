"""Jobs in threads: an interrupt ends them, at whatever moment it comes."""

import threading
from functools import partial

import pytest

from kitctl.edge.workers import run_all


def test_an_interrupt_while_threads_are_started_stops_those_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, ran = threading.Event(), []
    start = threading.Thread.start

    def start_or_interrupt(thread: threading.Thread) -> None:
        if len(ran) >= 2:
            raise KeyboardInterrupt
        ran.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_or_interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_all([partial(stop.wait, 60)] * 4, jobs=4, stop=stop)
    assert stop.is_set()
    assert [thread.is_alive() for thread in ran] == [False, False]
