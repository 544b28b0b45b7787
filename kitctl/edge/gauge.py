"""Count bytes of many threads and tell from time to time how far they are."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kitctl.store.progress import progress_text

_WINDOW_S = 15.0


class Gauge:
    """Bytes done of ``total_bytes``. ``had`` counts what was there already and does not raise the rate."""

    def __init__(self, verb: str, total_bytes: int) -> None:
        self._verb, self._total = verb, total_bytes
        self._done = self._came = 0
        self._lock = threading.Lock()
        self._marks: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])

    @property
    def came_bytes(self) -> int:
        """What was moved, without what was there already."""
        return self._came

    def came(self, count: int) -> None:
        """``count`` bytes were moved (less than nothing: thrown away)."""
        with self._lock:
            self._done += count
            self._came += max(0, count)

    def had(self, count: int) -> None:
        """``count`` bytes were there already."""
        with self._lock:
            self._done += count

    def line(self) -> str:
        """How far it is, by the rate of the last seconds."""
        now = time.monotonic()
        with self._lock:
            self._marks.append((now, self._came))
            while len(self._marks) > 2 and now - self._marks[1][0] > _WINDOW_S:
                self._marks.popleft()
            (since, before), came, done = self._marks[0], self._came, self._done
        rate = (came - before) / max(now - since, 1e-3)
        return progress_text(verb=self._verb, done_bytes=done, total_bytes=self._total, bytes_per_s=rate)


@contextmanager
def telling(line: Callable[[], str], say: Callable[[str], None], *, every_s: float) -> Iterator[None]:
    """Say what ``line`` gives every ``every_s`` seconds while the block runs."""
    done = threading.Event()

    def tell() -> None:
        while not done.wait(every_s):
            say(line())

    teller = threading.Thread(target=tell, daemon=True)
    try:
        teller.start()
        yield
    finally:
        done.set()
        if teller.is_alive():  # an interrupt may come while it is started
            teller.join()
