"""What can ``kitctl setup`` do to a host? Steps and actions as values; ``edge/setup_actions.py`` carries them out."""

from __future__ import annotations

from dataclasses import dataclass

from kitctl.finding import Finding


@dataclass(frozen=True, kw_only=True)
class Run:
    """Run a program to its end."""

    argv: tuple[str, ...]
    timeout_s: float


@dataclass(frozen=True, kw_only=True)
class UnpackDeb:
    """Fetch a package of a later suite (``folder``: its apt folder) and unpack it as the folder ``target``."""

    folder: str
    package: str
    version: str
    target: str


@dataclass(frozen=True, kw_only=True)
class UnpackWheel:
    """Let pip fetch and prove a wheel, and put its files into the folder ``target``."""

    pip: tuple[str, ...]
    requirement: str
    sha256: str
    target: str


@dataclass(frozen=True, kw_only=True)
class WriteText:
    """Write a file."""

    path: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Link:
    """Make ``path`` a symbolic link to ``target``; refuses where a file that is no link stands."""

    path: str
    target: str


@dataclass(frozen=True, kw_only=True)
class StartDaemon:
    """Start the engine detached from kitctl, and wait until it answers. Stale pidfiles are removed before: the
    engine would take whatever process has such a number by now for itself or for its containerd."""

    argv: tuple[str, ...]
    path: str
    log: str
    pidfile: str
    containerd_pidfile: str
    keep_environment: tuple[str, ...]
    timeout_s: float


@dataclass(frozen=True, kw_only=True)
class AwaitEngine:
    """Wait until the engine that the service manager started answers."""

    timeout_s: float


Action = Run | UnpackDeb | UnpackWheel | WriteText | Link | StartDaemon | AwaitEngine


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing that setup will do: what, why, from which source, and how."""

    name: str
    reason: str
    source: str
    actions: tuple[Action, ...]


@dataclass(frozen=True, kw_only=True)
class SetupPlan:
    """The steps in order, the findings that forbid them, and what the user should know besides."""

    steps: tuple[Step, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
