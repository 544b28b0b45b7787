"""Do driver, CUDA and architecture of the host fit the image?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kitctl.finding import Finding, Severity
from kitctl.host.facts import Gpu, HostFacts
from kitctl.plan.host_need import HostNeed, reserved_gpus
from kitctl.plan.host_tables import HostTables, is_at_least

_ARCH = re.compile(r"(\d+)\.(\d)([af]?)(\+PTX)?", re.IGNORECASE)


def check_driver(facts: HostFacts, need: HostNeed | None, tables: HostTables) -> Iterator[Finding]:
    """Findings on the driver alone, then on what the image asks of it."""
    yield from _check_reachable(facts, need, tables)
    if need is not None:
        yield from _check_cuda(facts, need.image_cuda, "driver-too-old-for-image", tables)
        if need.image_nvcc != need.image_cuda:
            yield from _check_cuda(facts, need.image_nvcc, "driver-too-old-for-ptx", tables)
        for gpu in reserved_gpus(facts, need):
            yield from _check_arch(gpu, need, tables)


def _check_reachable(facts: HostFacts, need: HostNeed | None, tables: HostTables) -> Iterator[Finding]:
    driver = facts.driver
    failure = driver.failure if driver is not None else None
    if failure and "version mismatch" in failure:
        yield tables.book.tell("driver-library-mismatch-reboot", failure, *_versions(facts), where="driver")
    elif failure and "no answer within" in failure:
        yield tables.book.tell("nvidia-smi-hangs", f"nvidia-smi: {failure}", where="driver")
    elif failure:
        yield tables.book.tell("nvidia-driver-unreachable", failure, where="driver")
    elif driver and driver.version and driver.module_version not in (None, driver.version):
        yield tables.book.tell("driver-library-mismatch-reboot", *_versions(facts), where="driver")
    elif not facts.gpus and need is None:
        reason = facts.unknown.get("gpus", "nvidia-smi lists none")
        yield tables.book.tell("no-gpu-on-host", reason, where="gpus")


def _versions(facts: HostFacts) -> tuple[str, ...]:
    driver = facts.driver
    named = (
        ("kernel module", driver.module_version if driver else None),
        ("library", driver.version if driver else None),
    )
    told = tuple(f"{what} {version}" for what, version in named if version)
    return told + tuple(f"package {line}" for line in (driver.packages if driver else None) or ())


def _check_cuda(facts: HostFacts, needed: str | None, code: str, tables: HostTables) -> Iterator[Finding]:
    if needed is None or facts.gpus is None:
        return
    version = facts.driver.version if facts.driver else None
    offered = facts.driver.cuda if facts.driver else None
    offered = offered or (tables.cuda_of_driver(version) if version else None)
    if offered is None:
        said = f"driver {version or 'unknown'}"
        yield tables.book.tell("driver-cuda-unknown", said, where="driver.cuda", needed=needed)
    elif not is_at_least(offered, needed):
        yield tables.book.tell(
            code,
            f"driver {version or 'of unknown version'}: CUDA {offered}",
            f"image: CUDA {needed}",
            where="driver.cuda",
            needed=needed,
            offered=offered,
            branch=tables.branch_for_cuda(needed),
        )


def _check_arch(gpu: Gpu, need: HostNeed, tables: HostTables) -> Iterator[Finding]:
    capability = gpu.compute_capability
    if capability is None:
        card = tables.card(gpu.name)
        capability = card.arch if card else None
    if capability is None:
        return
    where = f"GPU{gpu.index}"
    if need.image_archs and not any(arch_serves(arch, capability) for arch in need.image_archs):
        yield tables.book.tell(
            "image-lacks-gpu-arch",
            f"{where} {gpu.name}: compute capability {capability}",
            f"image: {' '.join(need.image_archs)}",
            where=where,
            capability=capability,
            name=gpu.name,
        )
    if need.archs and capability not in need.archs:
        wanted = " or ".join(need.archs)
        known = any(capability.partition(".")[0] == arch.partition(".")[0] for arch in need.archs)
        yield tables.book.tell(
            "stack-made-for-other-gpus",
            f"{where} {gpu.name}: compute capability {capability}",
            where=where,
            severity=Severity.NOTE if known else None,
            wanted=wanted,
            index=gpu.index,
            capability=capability,
        )


def arch_serves(arch: str, capability: str) -> bool:
    """Whether code built for ``arch`` runs on a GPU of ``capability`` (CUDA 13.0 programming guide).

    ``9.0`` serves 9.x from 9.0 on; ``12.0a`` serves exactly 12.0; ``10.0f`` its family, 10.x from 10.0 on;
    ``8.0+PTX`` also serves everything newer.
    """
    built, has = _ARCH.fullmatch(arch.strip()), _ARCH.fullmatch(capability)
    if built is None or has is None:
        return False
    needs, offers = (int(built[1]), int(built[2])), (int(has[1]), int(has[2]))
    if built[3].lower() == "a":
        return needs == offers
    return offers >= needs and (offers[0] == needs[0] or bool(built[4]))
