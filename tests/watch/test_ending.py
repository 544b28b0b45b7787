"""What the container engine saw counts where no line of the server says more."""

import pytest

from kitctl.edge.failure_book import failure_book
from kitctl.watch.diagnose import diagnose, diagnose_events
from kitctl.watch.ending import EngineEvent, latest_life, was_told_to_stop

BOOK = failure_book()
LOADING = "[2026-11-29 12:48:43] Load weight begin. avail mem=94.1 GB"
RANK = "[2026-11-29 12:48:43] Subprocess scheduler_1 (pid=7) crashed with exit code -9. Triggering SIGQUIT"


def events(*words: str) -> tuple[EngineEvent, ...]:
    """``kill 9`` is an event with its signal, ``die`` one without."""
    return tuple(
        EngineEvent(
            action=word.split()[0],
            at=f"2026-11-29T12:48:{50 + at}.000Z",
            signal=int(word.split()[1]) if " " in word else None,
        )
        for at, word in enumerate(words)
    )


KILLED, STOPPED, DEAF = (
    events("kill 9", "die"),
    events("kill 15", "die", "stop"),
    events("kill 15", "kill 9", "die"),
)


@pytest.mark.parametrize(
    ("log", "seen", "exit_code", "codes"),
    [
        (LOADING, KILLED, 137, ["killed-from-outside"]),
        (LOADING, events("kill 9", "die", "destroy"), None, ["killed-from-outside"]),
        (LOADING, events("kill 6", "die"), 134, ["killed-from-outside"]),
        (LOADING, events("destroy"), None, ["removed-from-outside"]),
        (LOADING, events("die"), 137, ["unknown"]),
        (LOADING, STOPPED, 137, []),
        (LOADING, DEAF, 137, []),
        (LOADING, events("pause"), None, ["paused-from-outside"]),
        (LOADING, events("pause", "unpause"), None, []),
        (LOADING, events("oom", "die"), 137, ["host-oom-killer"]),
        (RANK, events("oom"), None, ["host-oom-killer"]),
        (RANK, KILLED, 137, ["rank-killed"]),
    ],
)
def test_events_and_lines_together(
    log: str, seen: tuple[EngineEvent, ...], exit_code: int | None, codes: list[str]
) -> None:
    assert [one.code for one in diagnose(log, BOOK, exit_code=exit_code, events=seen)] == codes


def test_the_evidence_names_the_signal_and_the_time() -> None:
    (found,) = diagnose(LOADING, BOOK, exit_code=137, events=KILLED)
    assert found.cause == (
        "somebody killed the container through the container engine (signal 9 at 2026-11-29T12:48:50.000Z)"
    )
    assert found.evidence == ("container engine: kill, signal 9 at 2026-11-29T12:48:50.000Z",)


def test_a_start_that_somebody_stopped_is_told_though_a_stop_is_no_failure() -> None:
    assert [one.code for one in diagnose_events(STOPPED, BOOK)] == ["stopped-from-outside"]
    assert was_told_to_stop(STOPPED) and was_told_to_stop(DEAF) and not was_told_to_stop(KILLED)


def test_only_the_latest_life_counts() -> None:
    assert (
        latest_life((*events("create", "start"), *KILLED, *events("start", "oom")))
        == events("start", "oom")[1:]
    )
