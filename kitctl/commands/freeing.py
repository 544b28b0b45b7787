"""After a stack went down: wait until its port and GPUs are free, and name what still holds them."""

from __future__ import annotations

from kitctl.edge.clock import monotonic_s, sleep_s
from kitctl.edge.environment import engine_elsewhere
from kitctl.edge.port import port_is_free
from kitctl.result import Context
from kitctl.watch.left_over import left_over
from kitctl.watch.run_record import RunRecord

LOOK_EVERY_S = 1.0


def wait_until_free(record: RunRecord, *, within_s: float, context: Context) -> tuple[str, ...]:
    """What the run still holds after ``within_s``; empty as soon as nothing is left. Kills nothing."""
    gpus = tuple(record.plan["gpus"]["indices"])
    bind, port = record.plan["published"]["bind"], record.plan["published"]["port"]
    if not gpus and (engine_elsewhere() is not None or port_is_free(bind, port)):
        return ()
    from kitctl.edge.probe_runner import gather_host_facts

    until_s = monotonic_s() + within_s
    is_told = False
    while True:
        facts = gather_host_facts(engine=context.engine, disks=(), trials=False)
        left = left_over(record.facts, facts, gpus=gpus, port=port)
        if not left or monotonic_s() >= until_s:
            return left
        if not is_told:
            context.say(f"waiting up to {within_s:.0f} s: {'; '.join(left)}")
            is_told = True
        sleep_s(LOOK_EVERY_S)
