"""How long did each phase take when this stack was last started on this host?"""

from __future__ import annotations

from kitctl.edge.runs import list_records

NOT_THE_START = {"image", "model", "total"}
"""Done once and not again at the next start, or counted already."""


def last_phases(stack: str | None, *, rehearsal: bool) -> dict[str, float] | None:
    """Seconds by phase of the newest recorded start that became ready; ``None`` when there is none.

    ``stack`` ``None``: of any stack. What was built or fetched before the start is no part of it.
    """
    for record in list_records():
        is_meant = stack in (None, record.stack) and record.plan.get("rehearsal") == rehearsal
        if is_meant and record.ready:
            return {phase.name: phase.seconds for phase in record.phases if phase.name not in NOT_THE_START}
    return None
