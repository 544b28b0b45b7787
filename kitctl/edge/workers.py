"""Run jobs in threads; collect what fails, and end them all when going on is no use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from kitctl.edge.transfer import StoppedError
from kitctl.errors import KitError

_STOPS_ALL = {"disk-full", "disk-failed", "store-unwritable", "hub-gated", "hub-token"}
_FAILURES_THAT_STOP = 3


class _Crew:
    """Jobs that wait, and what failed so far."""

    def __init__(self, jobs: Sequence[Callable[[], None]], stop: threading.Event) -> None:
        self._waiting, self._stop = list(reversed(jobs)), stop
        self._lock = threading.Lock()
        self.failures: list[Exception] = []

    def work(self) -> None:
        """Do jobs until none is left or all are stopped."""
        while not self._stop.is_set():
            with self._lock:
                job = self._waiting.pop() if self._waiting else None
            if job is None:
                return
            try:
                job()
            except StoppedError:
                return
            except Exception as failed:  # handed to the caller, in whose thread it is raised
                self.failures.append(failed)
                if _ends_all(self.failures):
                    self._stop.set()


def run_all(work: Sequence[Callable[[], None]], *, jobs: int, stop: threading.Event) -> None:
    """Run ``work``, ``jobs`` at once, in daemon threads: an interrupt waits for no network.

    A failure of one job lets the others go on, unless it would meet them too. Raises the worst failure with the
    others as its evidence; on an interrupt sets ``stop`` and raises it.
    """
    crew = _Crew(work, stop)
    threads = [threading.Thread(target=crew.work, daemon=True) for _ in range(min(jobs, len(work)))]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(timeout=0.5)
    except BaseException:
        stop.set()
        for thread in threads:
            if thread.is_alive():  # an interrupt may come before all of them were started
                thread.join(timeout=1.0)
        raise
    if crew.failures:
        raise _worst(crew.failures)


def _ends_all(failures: Sequence[Exception]) -> bool:
    last = failures[-1]
    if not isinstance(last, KitError) or last.code in _STOPS_ALL:
        return True
    return (
        sum(isinstance(one, KitError) and one.code == "fetch-failed" for one in failures)
        >= _FAILURES_THAT_STOP
    )


def _worst(failures: Sequence[Exception]) -> Exception:
    """The failure that ends all, else the first; the others become its evidence."""
    known = [one for one in failures if isinstance(one, KitError)]
    if len(known) < len(failures):
        return next(one for one in failures if not isinstance(one, KitError))
    first = next((one for one in known if one.code in _STOPS_ALL), known[0])
    others = tuple(f"also: {one.cause} ({one.code})" for one in known if one is not first)
    return KitError(
        first.code,
        first.cause,
        evidence=(*first.evidence, *others),
        remedy=first.remedy,
        exit_code=first.exit_code,
    )
