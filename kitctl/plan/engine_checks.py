"""Can the container engine run the stack: does it answer, give GPUs, raise limits, and are its parts new enough?"""

from __future__ import annotations

from collections.abc import Iterator

from kitctl.finding import Finding
from kitctl.host.facts import ContainerEngine, HostFacts
from kitctl.plan.host_need import HostNeed
from kitctl.plan.host_tables import HostTables, is_at_least

_GPU_KIND = "nvidia.com/gpu="


def check_engine(facts: HostFacts, need: HostNeed | None, tables: HostTables) -> Iterator[Finding]:
    """Findings on the engine. How GPUs reach a container matters where GPUs are there or asked for."""
    engine = facts.engine
    if engine is None:
        reason = facts.unknown.get("engine", "not asked")
        yield tables.book.tell("docker-daemon-down", reason, where="engine")
        return
    wants_gpus = bool(facts.gpus) if need is None else bool(need.reservation_ids or need.gpu_indices)
    if wants_gpus:
        yield from _check_gpu_path(engine, facts, need, tables)
        driver = engine.gpu_driver if need is None else need.gpu_driver
        if driver == "nvidia" and engine.cgroup_driver == "systemd":
            yield tables.book.tell("gpus-lost-on-reload", where="engine.cgroup_driver")
    yield from _check_versions(engine, facts, tables)
    if engine.rootless:
        yield tables.book.tell("rootless-engine", where="engine")


def _check_gpu_path(
    engine: ContainerEngine, facts: HostFacts, need: HostNeed | None, tables: HostTables
) -> Iterator[Finding]:
    by_cdi = need is not None and need.gpu_driver == "cdi"
    if engine.gpu_driver == "none" and not by_cdi:
        runtimes = f"runtimes: {' '.join(engine.runtimes) or 'none'}; CDI devices: {_count(engine)}"
        tried = facts.unknown.get("engine.gpu_driver", "a short container with --gpus was refused")
        yield tables.book.tell("nvidia-toolkit-not-configured", runtimes, tried, where="engine.gpu_driver")
    elif engine.gpu_driver is None and not by_cdi:
        reason = facts.unknown.get("engine.gpu_driver", "not tried")
        yield tables.book.tell("gpu-path-unsettled", reason, where="engine.gpu_driver")
    if by_cdi and need is not None:
        yield from _check_cdi_devices(engine, need, tables)
    yield from _check_cdi_spec(engine, facts, tables)


def _check_cdi_devices(engine: ContainerEngine, need: HostNeed, tables: HostTables) -> Iterator[Finding]:
    if engine.cdi_devices is None:
        return
    for wanted in need.reservation_ids:
        name = wanted if "=" in wanted else f"{_GPU_KIND}{wanted}"
        if name not in engine.cdi_devices:
            there = f"listed: {' '.join(engine.cdi_devices[:12]) or 'none'}"
            yield tables.book.tell("cdi-device-missing", there, where="engine.cdi_devices", device=name)


def _check_cdi_spec(engine: ContainerEngine, facts: HostFacts, tables: HostTables) -> Iterator[Finding]:
    """A spec written before a card or driver changed lists another number of GPUs."""
    listed = [name for name in engine.cdi_devices or () if name.startswith(_GPU_KIND)]
    numbered = [name for name in listed if name.removeprefix(_GPU_KIND).isdigit()]
    if numbered and facts.gpus and len(numbered) != len(facts.gpus):
        yield tables.book.tell(
            "cdi-spec-stale",
            f"listed: {' '.join(numbered)}",
            where="engine.cdi_devices",
            listed=len(numbered),
            there=len(facts.gpus),
        )


def _count(engine: ContainerEngine) -> str:
    return "unknown" if engine.cdi_devices is None else str(len(engine.cdi_devices))


def _check_versions(engine: ContainerEngine, facts: HostFacts, tables: HostTables) -> Iterator[Finding]:
    limits = tables.limits
    if engine.compose_version is None:
        reason = facts.unknown.get("engine.compose_version", "no version was given")
        yield tables.book.tell("compose-missing", reason, where="engine.compose_version")
    elif not is_at_least(engine.compose_version, limits.compose_min):
        yield tables.book.tell(
            "compose-too-old",
            where="engine.compose_version",
            version=engine.compose_version,
            minimum=limits.compose_min,
        )
    buildx = engine.buildx_version
    if buildx is None or not is_at_least(buildx, limits.buildx_min):
        version = buildx or "not there"
        yield tables.book.tell(
            "buildx-too-old", where="engine.buildx_version", version=version, minimum=limits.buildx_min
        )
