"""Where does a stack go: which overlay, which GPUs, and what must be left out there?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kitctl.finding import Finding, Severity
from kitctl.host.facts import HostFacts
from kitctl.kit.catalog import pick_named_overlay
from kitctl.kit.overlay import Overlay
from kitctl.kit.stack import Stack
from kitctl.plan.gpu_choice import GpuChoice, choose_gpus, require_gpu_list
from kitctl.plan.overlay_choice import choose_overlay
from kitctl.plan.rank import gpus_here
from kitctl.plan.rehearsal import fixed_overlay, stack_wants_gpus
from kitctl.plan.types import Request

SAFE_OVERLAY = "pcie"


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The host side of a plan: overlays in compose order, GPUs (``None``: none reserved), archs of those.

    ``environment`` is what the topology decides beyond the overlay files (a narrower NCCL level).
    """

    overlays: tuple[Overlay, ...]
    overlay_reason: str
    gpus: GpuChoice | None = None
    archs: tuple[str, ...] = ()
    links: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def place_stack(
    stack: Stack, request: Request, *, overlays: Mapping[str, Overlay], facts: HostFacts
) -> Placement:
    """Overlay, GPUs and architecture for ``stack``. Raises KitError ``unknown-overlay`` (exit 2)."""
    addons = tuple(pick_named_overlay(overlays, name) for name in request.addons)
    fixed = fixed_overlay(request, overlays, stage=stack.image.stage)
    if fixed is not None and not stack_wants_gpus(request, overlays, stage=stack.image.stage):
        require_gpu_list(request.gpus)
        reason = "--rehearse" if request.rehearse else f"image stage {stack.image.stage}"
        reason = "--overlay" if request.overlay else reason
        return Placement(
            overlays=(fixed, *addons),
            overlay_reason=f"{fixed.block.summary}: {reason}",
            findings=(_not_reserved(fixed.name, request.gpus),) if request.gpus else (),
        )
    gpus = choose_gpus(facts, wanted=request.gpus, count=gpus_here(stack, request.rank))
    return _place_on_gpus(gpus, request, addons, overlays=overlays, facts=facts)


def _place_on_gpus(
    gpus: GpuChoice,
    request: Request,
    addons: tuple[Overlay, ...],
    *,
    overlays: Mapping[str, Overlay],
    facts: HostFacts,
) -> Placement:
    choice = choose_overlay(
        facts.topology, gpus.indices, overlays=tuple(overlays.values()), forced=request.overlay
    )
    name = choice.name or SAFE_OVERLAY
    findings = () if choice.name else (_links_unknown(choice.reason),)
    return Placement(
        overlays=(pick_named_overlay(overlays, name), *addons),
        overlay_reason=choice.reason,
        gpus=gpus,
        archs=_archs(facts, gpus.indices),
        links=choice.links.value if choice.links else None,
        environment=choice.environment,
        findings=(*gpus.findings, *findings),
    )


def _archs(facts: HostFacts, indices: tuple[int, ...]) -> tuple[str, ...]:
    reserved = [gpu for gpu in facts.gpus or () if gpu.index in indices]
    return tuple(sorted({gpu.compute_capability for gpu in reserved if gpu.compute_capability}))


def _not_reserved(overlay: str, gpus: str) -> Finding:
    return Finding(
        code="gpus-not-reserved",
        severity=Severity.NOTE,
        cause=f"the overlay {overlay} reserves no GPUs, so --gpus {gpus} changes nothing",
        remedy="leave --gpus out, or choose a stack for GPUs",
    )


def _links_unknown(reason: str) -> Finding:
    return Finding(
        code="links-unknown",
        severity=Severity.WARN,
        cause=f"the GPUs' links are unknown; the {SAFE_OVERLAY} overlay is taken: right anywhere, slower on NVLink",
        evidence=(reason,),
        remedy="name the overlay with --overlay, or run kitctl topo to see what nvidia-smi says",
    )
