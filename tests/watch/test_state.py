"""Lines, probes and the end add up to a state; each change says why."""

from kitctl.edge.failure_book import failure_book
from kitctl.watch.state import (
    Change,
    StackState,
    Watched,
    change_between,
    judge_state,
    saw_end,
    saw_line,
    saw_probe,
)

BOOK = failure_book()


def after_lines(*lines: str, seen: Watched | None = None) -> Watched:
    seen = seen or Watched()
    for line in lines:
        seen = saw_line(seen, line, book=BOOK, at_s=1.0)
    return seen


def test_loading_until_it_answers() -> None:
    seen = after_lines("[2026-11-29 12:48:43] server_args=ServerArgs(x)")
    assert change_between(StackState.ABSENT, seen, now_s=9.0) is None, "nobody has asked it yet"
    asked = saw_probe(seen, healthy=False)
    assert change_between(StackState.ABSENT, asked, now_s=9.0) == Change(
        before=StackState.ABSENT, after=StackState.LOADING, why="phase started"
    )
    assert change_between(StackState.LOADING, saw_probe(seen, healthy=False), now_s=9.0) is None
    ready = saw_probe(seen, healthy=True)
    assert change_between(StackState.LOADING, ready, now_s=9.0) == Change(
        before=StackState.LOADING, after=StackState.READY, why="answers"
    )


def test_one_missed_probe_is_no_state_and_two_are() -> None:
    seen = saw_probe(saw_probe(Watched(), healthy=True), healthy=False)
    assert judge_state(seen) is StackState.READY
    assert change_between(StackState.READY, saw_probe(seen, healthy=False), now_s=9.0) == Change(
        before=StackState.READY,
        after=StackState.UNWELL,
        why="2 health requests in a row got no answer",
    )


def test_a_killed_rank_is_failing_while_the_port_stays_open() -> None:
    seen = saw_probe(Watched(), healthy=True)
    seen = after_lines(
        "[2026-11-29 12:48:43 TP1] Scheduler hit an exception: Traceback (most recent call last):", seen=seen
    )
    assert change_between(StackState.READY, seen, now_s=1.2) is None
    change = change_between(StackState.READY, seen, now_s=1.6)
    assert change is not None
    assert change.after is StackState.FAILING
    assert change.why == "TP1: Scheduler hit an exception: Traceback (most recent call last):"
    assert judge_state(saw_end(seen, 137)) is StackState.CRASHED


def test_an_end_after_sigterm_is_a_stop_whatever_the_exit_code() -> None:
    seen = after_lines("[2026-11-29 12:44:58] SIGTERM received. signum=None frame=None. Draining requests")
    assert judge_state(saw_end(seen, 137)) is StackState.STOPPED
    assert judge_state(saw_end(Watched(), 0)) is StackState.CRASHED
