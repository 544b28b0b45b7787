"""How long did each phase take when this stack was last started on this host?"""

from __future__ import annotations

from kitctl.edge.runs import list_records


def last_phases(stack: str, *, rehearsal: bool) -> dict[str, float] | None:
    """Seconds by phase of the newest recorded run that became ready; ``None`` when there is none."""
    for record in list_records():
        if record.stack == stack and record.ready and record.plan.get("rehearsal") == rehearsal:
            return {phase.name: phase.seconds for phase in record.phases}
    return None
