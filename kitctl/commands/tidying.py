"""Close what a killed kitctl left open: half-written files, and runs that are no longer starting."""

from __future__ import annotations

import msgspec

from kitctl.commands.projects import running_container
from kitctl.edge.runs import list_records, now_utc, save_record, sweep_halves
from kitctl.render.compose import LABEL
from kitctl.watch.run_record import Outcome


def tidy_runs(project: str) -> None:
    """Call it with the project's lock held: nobody else starts a run of it then.

    A run that is still noted as starting and has no container was interrupted.
    """
    sweep_halves(project)
    container = running_container(project)
    alive = container.labels.get(f"{LABEL}.run") if container else None
    for record in list_records():
        if record.project == project and record.outcome is Outcome.STARTING and record.id != alive:
            save_record(msgspec.structs.replace(record, outcome=Outcome.INTERRUPTED, ended=now_utc()))
