"""Tell what a stack that was told to stop still works on, while another call waits for its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kitctl.edge.clock import monotonic_s
from kitctl.edge.container_log import follow_beside
from kitctl.edge.docker_engine import ContainerState
from kitctl.edge.docker_events import container_events
from kitctl.watch.draining import Drain

LAST_WORDS_S = 1.0
KILL = 9


@contextmanager
def telling_drain(container: ContainerState, say: Callable[[str], None]) -> Iterator[None]:
    """Tell, while the block stops ``container``, how many requests are left; at its end, whether any were cut off."""
    teller = _Teller(container.stop_grace_s, say)
    say(
        f"stopping {container.name}; requests in flight are finished first, for at most {container.stop_grace_s} s"
    )
    follower = follow_beside(container.id, teller.see)
    yield
    follower.join(LAST_WORDS_S)
    kills = [event.signal for event in container_events(container.id) if event.action == "kill"]
    outcome = teller.drain.outcome(was_killed=len(kills) > 1 and kills[-1] == KILL)
    if outcome:
        say(f"  {outcome}")


class _Teller:
    """What was told so far of one drain."""

    def __init__(self, grace_s: int, say: Callable[[str], None]) -> None:
        self._say, self._begun_s = say, monotonic_s()
        self.drain = Drain(grace_s=grace_s)

    def see(self, line: str) -> None:
        """One more line of the log."""
        before, self.drain = self.drain, self.drain.saw(line)
        news = self.drain.news(before, after_s=monotonic_s() - self._begun_s)
        if news:
            self._say(news)
