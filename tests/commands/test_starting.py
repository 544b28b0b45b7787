"""What a start tells of an engine whose log comes later than its first answer."""

from pathlib import Path

import pytest

from kitctl.commands import starting
from kitctl.edge.docker_engine import ContainerState
from kitctl.edge.failure_book import failure_book
from kitctl.watch.start import StartState, see_line

LOG = (Path(__file__).parent.parent / "cases" / "gpu_proof" / "wide" / "wide.log").read_text().splitlines()
UP = ContainerState(
    id="c", name="c", image_id="i", labels={}, status="running", exit_code=None, oom_killed=False, restart_count=0,
    health=None, started_at="2026-11-30T20:37:00Z", finished_at=None, argv=(), environment={}, error="",
    stop_grace_s=60,
)  # fmt: skip


@pytest.mark.parametrize("read", [0, len(LOG) // 2, len(LOG)])
def test_the_tokens_are_told_however_much_of_the_log_was_read(
    read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy host the answer may come before the line that tells them was read."""
    monkeypatch.setattr(starting, "log_lines", lambda *words, **more: iter(LOG))
    state = StartState(begun_s=0, deadline_s=9)
    for line in LOG[:read]:
        state = see_line(state, line, at_s=0, book=failure_book())
    assert starting._kv_tokens(state, UP) == 100000


def test_a_container_that_is_gone_tells_no_tokens() -> None:
    assert starting._kv_tokens(StartState(begun_s=0, deadline_s=9), None) is None
