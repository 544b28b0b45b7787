"""After a stack went down: note it in its record, wait until port and GPUs are free, name what still holds them."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from kitctl.edge.clock import monotonic_s, sleep_s
from kitctl.edge.environment import engine_elsewhere
from kitctl.edge.port import port_is_free
from kitctl.edge.runs import latest_record, now_utc, save_record
from kitctl.result import Context
from kitctl.watch.left_over import Left, left_over, tells_memory
from kitctl.watch.run_record import Outcome, RunRecord

LOOK_EVERY_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Freed:
    """What was seen last: what is ``left``, and whether the stack's GPUs told their memory (``None``: it had none)."""

    left: tuple[Left, ...] = ()
    gpus_told: bool | None = None

    @property
    def lines(self) -> tuple[str, ...]:
        """What is left, one line each."""
        return tuple(one.line for one in self.left)

    @property
    def are_gpus_free(self) -> bool | None:
        """Whether the GPUs hold no more than before the start; ``None`` where that was not to be seen."""
        return not any(one.gpu is not None for one in self.left) if self.gpus_told else None


def end_record(project: str) -> RunRecord | None:
    """Note in the project's newest record that it was stopped; the record, if there is one."""
    record = latest_record(project)
    if record is None or record.ended is not None:
        return record
    ended = msgspec.structs.replace(record, outcome=Outcome.STOPPED, ended=now_utc())
    save_record(ended)
    return ended


def wait_until_free(record: RunRecord, *, within_s: float, context: Context) -> Freed:
    """What is still held after ``within_s``, or as soon as others hold all that is. Kills nothing."""
    gpus = tuple(record.plan["gpus"]["indices"])
    bind, port = record.plan["published"]["bind"], record.plan["published"]["port"]
    if not gpus and (engine_elsewhere() is not None or port_is_free(bind, port)):
        return Freed()
    from kitctl.edge.probe_runner import gather_host_facts

    until_s = monotonic_s() + within_s
    is_said = False
    while True:
        facts = gather_host_facts(engine=context.engine, disks=(), trials=False)
        left = left_over(record.facts, facts, gpus=gpus, port=port)
        freed = Freed(left=left, gpus_told=tells_memory(facts, gpus) if gpus else None)
        if all(one.is_others for one in left) or monotonic_s() >= until_s:
            return freed
        if not is_said:
            context.say(f"waiting up to {within_s:.0f} s: {'; '.join(freed.lines)}")
            is_said = True
        sleep_s(LOOK_EVERY_S)
