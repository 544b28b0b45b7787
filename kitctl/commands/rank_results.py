"""What one rank of a server over several hosts says of itself, for people and for the one who started all ranks."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from kitctl.commands.planning import Planned
from kitctl.commands.projects import running_container
from kitctl.edge.image_identity import image_identity
from kitctl.plan.types import Plan
from kitctl.render.compose import LABEL, base_url
from kitctl.result import Result
from kitctl.watch.run_record import RunRecord

PORT_TAKEN = "port-taken-by-host-process"


def with_image(result: Result, plan: Plan) -> Result:
    """A dry run's result with what proves the image the same on all hosts; for one host as it was."""
    if plan.rank is None:
        return result
    return replace(result, data={**result.data, "image_identity": image_identity(plan.image.reference)})


def with_rank(result: Result, plan: Plan, record: RunRecord) -> Result:
    """The result of a rank that is up; for a plan of one host as it was."""
    if plan.rank is None:
        return result
    proof = {
        "argv_live": list(record.argv_live),
        "image_identity": image_identity(plan.image.reference),
        "models": [msgspec.to_builtins(model) for model in record.models],
    }
    lines = result.lines
    if not plan.rank.serves:
        lines = (
            f"{plan.stack.name}: {plan.rank.words} is up; rank 0 at {plan.rank.meeting} answers clients",
            f"  run:  {record.id}",
        )
    return replace(result, data={**result.data, **proof}, lines=lines)


def without_own_port(planned: Planned) -> Planned:
    """The plan of a rank without the finding that its own running container holds its port.

    On the host's network no engine tells whose a port is; a plan of one host is as it was.
    """
    plan = planned.plan
    container = running_container(plan.project) if plan.rank else None
    if (
        container is None
        or not container.is_running
        or container.labels.get(f"{LABEL}.url") != base_url(plan)
    ):
        return planned
    kept = tuple(finding for finding in plan.findings if finding.code != PORT_TAKEN)
    return replace(planned, plan=replace(plan, findings=kept))
