"""Wait for a container that runs already: shared by wait and restart."""

from __future__ import annotations

import msgspec

from kitctl.commands.projects import gpu_count
from kitctl.commands.starting import Target, wait_until_ready
from kitctl.commands.status import recorded_key
from kitctl.commands.up_results import diagnose_start
from kitctl.edge.clock import monotonic_s
from kitctl.edge.docker_engine import ContainerState
from kitctl.edge.runs import load_record, now_utc, save_record
from kitctl.errors import Exit
from kitctl.render.compose import LABEL
from kitctl.result import Context, Result
from kitctl.watch.diagnose import diagnosis_lines
from kitctl.watch.run_record import Outcome
from kitctl.watch.start import Verdict


def wait_for_container(
    container: ContainerState, *, timeout_s: float, stalled_s: float, context: Context
) -> Result:
    """Follow the container until it answers; exit 0, 7 (died, with the diagnosis) or 8 (time over)."""
    record = load_record(container.labels.get(f"{LABEL}.run", ""))
    target = Target(
        container_id=container.id,
        folder=record.folder if record else "",
        url=container.labels.get(f"{LABEL}.url", ""),
        model=container.labels.get(f"{LABEL}.model", ""),
        api_key=recorded_key(container),
        gpus=gpu_count(container),
    )
    started = wait_until_ready(
        target, deadline_s=monotonic_s() + timeout_s, say=context.say, stalled_s=stalled_s
    )
    name = container.labels.get(f"{LABEL}.stack", container.name)
    data = {"schema": "kitctl.wait/1", "stack": name, "verdict": started.verdict.value}
    if started.verdict is Verdict.ASK:
        if record is not None and record.ready is None:
            save_record(msgspec.structs.replace(record, outcome=Outcome.READY, ready=now_utc()))
        return Result(data={**data, "verdict": "ready"}, lines=(f"{name} answers at {target.url}",))
    found = diagnose_start(started)
    lines = (*diagnosis_lines(found), f"{name}: {started.verdict.value}")
    exit_code = Exit.CRASHED if started.verdict is Verdict.CRASHED else Exit.NOT_READY
    return Result(
        data={**data, "diagnoses": [msgspec.to_builtins(d) for d in found]}, lines=lines, exit=exit_code
    )
