"""The faults that the chaos suite makes (``faults.yaml``), each with the verdict that kitctl must come to."""

from pathlib import Path

import msgspec


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault. ``does`` says it for the table; ``verdict`` is a diagnosis, a state, or a finding.

    ``bound_s`` is the longest time from the event to the verdict; ``env`` steers the fault server.
    """

    name: str
    does: str
    verdict: str
    bound_s: float
    exit_code: int = 7
    env: dict[str, str] = {}
    words: tuple[str, ...] = ()


class Faults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All faults by when they happen."""

    starts: tuple[Fault, ...]
    serving: tuple[Fault, ...]
    outside: tuple[Fault, ...]
    gpus: tuple[Fault, ...]
    engine: tuple[Fault, ...]


FAULTS = msgspec.yaml.decode((Path(__file__).parent / "faults.yaml").read_text(), type=Faults)
BY_NAME = {
    fault.name: fault
    for group in (FAULTS.starts, FAULTS.serving, FAULTS.outside, FAULTS.gpus, FAULTS.engine)
    for fault in group
}
