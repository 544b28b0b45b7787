"""A server that was told to stop finishes its requests first: how many are left, and until when? Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LEFT = re.compile(r"Gracefully exiting\.\.\. Remaining number of requests (\d+)\.")
"""SGLang says it every 5 s while it drains, without any limit of its own (measured, SGLang 0.5.16)."""


@dataclass(frozen=True, kw_only=True)
class Drain:
    """A drain as told so far: ``left`` requests, ``None`` before the engine said a number."""

    grace_s: int
    left: int | None = None

    def saw(self, line: str) -> Drain:
        """After one more log line."""
        found = _LEFT.search(line)
        return Drain(grace_s=self.grace_s, left=int(found[1])) if found else self

    def news(self, before: Drain, *, after_s: float) -> str | None:
        """What a person should hear when the number has changed, ``after_s`` into the drain."""
        if self.left is None or self.left == before.left or self.left == 0:
            return None
        return (
            f"  {_requests(self.left)} in flight after {after_s:.0f} s; at {self.grace_s} s they are cut off"
        )

    def outcome(self, *, was_killed: bool) -> str | None:
        """What became of the requests, if anything is to be told."""
        if not was_killed:
            return None
        left = _requests(self.left) if self.left else "whatever was in flight"
        return (
            f"it did not end within {self.grace_s} s and was killed; {left} may be lost"
            " (SGLang takes new requests to its end: stop the load first)"
        )


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count} requests"
