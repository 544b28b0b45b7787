"""Which failures does kitctl foresee, and with which exit code does each end?"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes of every command: unique, and listed here alone."""

    OK = 0
    USAGE = 2
    REFUSED = 3
    BUILD = 4
    FETCH = 5
    START = 6
    CRASHED = 7
    NOT_READY = 8
    GATE = 9
    UNREACHABLE = 10
    BUG = 70
    INTERRUPTED = 130


EXIT_MEANINGS: dict[Exit, str] = {
    Exit.OK: "done, or nothing to do",
    Exit.USAGE: "wrong usage or a bad file",
    Exit.REFUSED: "refused by a check; nothing was fetched, built or started",
    Exit.BUILD: "the image could not be built or failed its smoke test",
    Exit.FETCH: "a model could not be fetched or verified",
    Exit.START: "the container could not be started",
    Exit.CRASHED: "the engine crashed",
    Exit.NOT_READY: "the engine was not ready in time",
    Exit.GATE: "a gate failed: quality, regression or acceptance; or a measurement is invalid",
    Exit.UNREACHABLE: "the container engine or the host cannot be reached",
    Exit.BUG: "a bug in kitctl",
    Exit.INTERRUPTED: "interrupted",
}


def is_interrupt(error: BaseException | None) -> bool:
    """Whether ``error`` is an interrupt, or one that Python turned into another error on its way.

    It does so with what is raised while a class is made: ``RuntimeError: Error calling __set_name__`` from
    KeyboardInterrupt (measured, CPython 3.11.7: an interrupt while modules were imported).
    """
    return error is not None and (isinstance(error, KeyboardInterrupt) or is_interrupt(error.__cause__))


class KitError(Exception):
    """A foreseen failure: what happened, the evidence for it, and what mends it.

    ``code`` is stable and machine-readable, ``cause`` one sentence in the user's terms, ``evidence`` the
    command, file and field path or log lines that show it, ``remedy`` a command or change that mends it.
    """

    def __init__(
        self, code: str, cause: str, *, remedy: str, exit_code: Exit, evidence: tuple[str, ...] = ()
    ) -> None:
        super().__init__(cause)
        self.code = code
        self.cause = cause
        self.remedy = remedy
        self.exit_code = exit_code
        self.evidence = evidence

    def lines(self) -> tuple[str, ...]:
        """The failure for a person: cause and code, evidence, remedy."""
        seen = (f"  seen: {line}" for line in self.evidence)
        return (f"{self.cause} ({self.code})", *seen, f"  do:   {self.remedy}")

    def fields(self) -> dict[str, object]:
        """The failure for a program, as each contract that tells one holds it."""
        return {
            "code": self.code,
            "cause": self.cause,
            "evidence": list(self.evidence),
            "remedy": self.remedy,
        }
