"""When was a log line written, by the clock that never steps? The engine stamps lines by a clock of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class LogClock:
    """The engine's clock (``engine_s``, since the epoch) and ours (``own_s``) when the log was opened.

    ``logged_s``: when the latest line was written, by ours. Lines that were there before are placed by their stamps;
    from the first that is not (``is_live``), a line was written when it came: the host's clock may be set meanwhile.
    """

    engine_s: float
    own_s: float
    logged_s: float = float("-inf")
    is_live: bool = False


def place_line(clock: LogClock, stamp_s: float | None, *, at_s: float) -> LogClock:
    """The clock after a line that came at ``at_s``: ``logged_s`` never lies before its forerunner's.

    A line without a stamp counts as written when it came.
    """
    if clock.is_live or stamp_s is None or stamp_s >= clock.engine_s:
        return replace(clock, is_live=True, logged_s=at_s)
    logged_s = clock.own_s - (clock.engine_s - stamp_s)
    return replace(clock, logged_s=min(at_s, max(logged_s, clock.logged_s)))
