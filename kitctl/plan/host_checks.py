"""Which causes of a failed or slow start does the host show now, alone or for one stack?"""

from __future__ import annotations

from kitctl.finding import Finding
from kitctl.host.facts import HostFacts
from kitctl.plan.driver_checks import check_driver
from kitctl.plan.engine_checks import check_engine
from kitctl.plan.gpu_checks import check_gpus
from kitctl.plan.host_need import HostNeed
from kitctl.plan.host_tables import HostTables
from kitctl.plan.link_checks import check_links
from kitctl.plan.nccl_checks import check_environment
from kitctl.plan.space_checks import check_host_space, check_stack_space


def check_host(facts: HostFacts, *, need: HostNeed | None, tables: HostTables) -> tuple[Finding, ...]:
    """All findings, in the order of the causes: engine, driver, GPUs, links, environment, space.

    Without ``need`` the host is judged for itself; with it, for exactly that stack and those GPUs.
    """
    found = [
        *check_engine(facts, need, tables),
        *check_driver(facts, need, tables),
        *check_gpus(facts, need, tables),
        *check_links(facts, need, tables),
        *(check_environment(facts, need, tables) if need is not None else ()),
        *check_host_space(facts, tables),
        *(check_stack_space(facts, need, tables) if need is not None else ()),
    ]
    return tuple(found)
