"""How did a container end, by the word of the container engine? Its exit code, its flags, its events."""

from __future__ import annotations

from dataclasses import dataclass

ASK_TO_END = (2, 15)
"""SIGINT and SIGTERM: what a person or 'docker stop' sends, and what the engine obeys by draining."""


@dataclass(frozen=True, kw_only=True)
class EngineEvent:
    """One event of a container: ``action`` (``kill``, ``oom``, ``die``, ``stop``, ``pause``, ``destroy`` ...) and,
    where it has them, the signal sent and the exit code. ``at`` is the engine's clock, UTC, ISO 8601."""

    action: str
    at: str
    signal: int | None = None
    exit_code: int | None = None

    def describe(self) -> str:
        """The event as evidence."""
        said = {"signal": self.signal, "exit code": self.exit_code}
        words = [f"{name} {value}" for name, value in said.items() if value is not None]
        return ", ".join([f"container engine: {self.action}", *words]) + f" at {self.at}"


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How the container ended, as the engine says; ``None`` is unknown or not ended.

    ``oom_killed`` is the kernel's word; the exit code alone proves nothing: SGLang ends itself with 137 after a
    crash and after an ordinary stop, and as process 1 with 0 (measured, SGLang 0.5.16). ``events`` are those of its
    latest life, oldest first.
    """

    exit_code: int | None = None
    oom_killed: bool | None = None
    restart_count: int | None = None
    health: str | None = None
    events: tuple[EngineEvent, ...] = ()

    def describe(self) -> tuple[str, ...]:
        """What is known, as evidence."""
        said = {
            "exit code": self.exit_code,
            "OOMKilled": self.oom_killed,
            "restarts": self.restart_count or None,
            "health": self.health,
        }
        lines = [f"container: {name} {value}" for name, value in said.items() if value is not None]
        return (*lines, *(event.describe() for event in self.events if event.action in _TOLD))


_TOLD = ("kill", "oom", "stop", "pause", "unpause", "destroy")


def latest_life(events: tuple[EngineEvent, ...]) -> tuple[EngineEvent, ...]:
    """The events since the container's latest start, as far as the engine still knows them."""
    starts = [at for at, event in enumerate(events) if event.action == "start"]
    return events[starts[-1] + 1 :] if starts else events


def was_told_to_stop(events: tuple[EngineEvent, ...]) -> bool:
    """Whether somebody asked the container to end, and did not just kill it."""
    first = next((event.signal for event in events if event.action == "kill"), None)
    return first in ASK_TO_END or any(event.action == "stop" for event in events)


def met_memory_limit(events: tuple[EngineEvent, ...]) -> bool:
    """Whether the kernel killed a process of the container for memory; the container itself may live on."""
    return any(event.action == "oom" for event in events)
