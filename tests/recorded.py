"""A run record as ``kitctl up`` leaves it, of a server that a test started itself."""

from kitctl.edge.runs import run_folder, save_record
from kitctl.plan.names import project_name
from kitctl.plan.types import Request
from kitctl.watch.run_record import Outcome, RunRecord


def ready_run(url: str, stack: str = "demo-stack", *, name: str | None = None) -> None:
    """Record that the stack, or its copy of that name, is ready at ``url``."""
    run_id = f"20260101T000000Z-{name or 'demo'}"
    record = RunRecord(
        id=run_id, stack=stack, project=project_name(Request(stack=stack, name=name)), fingerprint="f", kitctl="0.1.0",
        command=(), started="2026-01-01T00:00:00Z", outcome=Outcome.READY, url=url, served_model="demo", plan={},
        facts={}, folder=run_folder(run_id),
    )  # fmt: skip
    save_record(record)
