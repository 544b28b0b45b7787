"""What is a start measured against: the bytes of its weights and its last load on this host."""

from __future__ import annotations

from kitctl.commands.last_start import last_phases
from kitctl.commands.planning import Planned
from kitctl.watch.progress import LATER_PHASES, derive_deadline_s
from kitctl.watch.start import Yardstick


def yardstick_of(planned: Planned) -> Yardstick:
    """Bytes of the models in the lock, and the phases of the newest run of this stack here that became ready."""
    sizes = [file.size_bytes for entry in planned.entries.values() for file in entry.files]
    phases = last_phases(planned.plan.stack.name, rehearsal=planned.plan.rehearsal)
    return Yardstick(weight_bytes=sum(sizes) or None, last_load=phases)


def deadline_after_s(planned: Planned, yardstick: Yardstick, *, timeout_s: float | None) -> float:
    """Seconds that the start may take: as asked, or derived from bytes and history."""
    if timeout_s is not None:
        return timeout_s
    last = yardstick.last_load
    total_s = sum(last.get(phase.value, 0.0) for phase in LATER_PHASES) if last else None
    return derive_deadline_s(
        weight_bytes=yardstick.weight_bytes,
        last_total_s=total_s,
        start_period_s=planned.plan.stack.serve.start_period_s,
    )
