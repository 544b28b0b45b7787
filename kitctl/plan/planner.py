"""Decide: one stack on one host, down to argv, environment, GPUs, mounts and overlay, with the reason of each.

Pure: everything that must be known is handed in. Nothing here knows a model, a version or a host by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kitctl.host.facts import HostFacts
from kitctl.kit.addon_images import AddonImage
from kitctl.kit.catalog import KitTexts, ResolvedStack
from kitctl.kit.overlay import Overlay
from kitctl.kit.stack import Serve
from kitctl.plan.addons import LOOPBACK_BIND, addon_services, endpoints, stands_for_engine
from kitctl.plan.engine_command import model_target, plan_argv
from kitctl.plan.flag_spelling import Spellings
from kitctl.plan.gpu_choice import GpuChoice
from kitctl.plan.names import PROJECT_PREFIX, project_name
from kitctl.plan.placement import Placement
from kitctl.plan.ranks import as_rank
from kitctl.plan.rehearsal import HostedStack
from kitctl.plan.types import (
    Endpoint,
    GpuDriver,
    GpuReservation,
    ImageChoice,
    Mount,
    Plan,
    PlannedModel,
    Published,
    Request,
)

CACHE_ROOT = "/cache"


@dataclass(frozen=True, kw_only=True)
class Kit:
    """What the planner needs of the kit."""

    texts: KitTexts
    base: str
    base_environment: Mapping[str, str]
    overlays: Mapping[str, Overlay]
    spellings: Spellings
    container_port: int
    addon_images: Mapping[str, AddonImage] = field(default_factory=dict)


def compose_plan(
    request: Request,
    *,
    kit: Kit,
    hosted: HostedStack,
    placement: Placement,
    image: ImageChoice,
    models: tuple[PlannedModel, ...],
    facts: HostFacts,
    max_total_tokens: int | None = None,
) -> Plan:
    """The plan for ``request``. Raises KitError (exit 2 or 3) for what no host could run as asked."""
    stack = hosted.resolved.stack
    argv = plan_argv(
        stack,
        kit=(kit.spellings, placement.overlays),
        release=image.release,
        models=models,
        container_port=kit.container_port,
        engine_flags=request.engine_flags,
        max_total_tokens=max_total_tokens,
    )
    ports = endpoints(placement.overlays, stack.serve, request)
    plan = Plan(
        stack=stack,
        project=project_name(request),
        image=image,
        overlays=tuple(overlay.name for overlay in placement.overlays),
        argv=argv,
        environment=plan_environment(placement, stack.environment),
        gpus=reserve(placement.gpus, facts),
        models=models,
        mounts=plan_mounts(models, image, placement.archs),
        published=_published(request, stack.serve, ports, container_port=kit.container_port),
        model_name=stack.serve.model_name or stack.model,
        rehearsal=request.rehearse,
        boot=request.boot,
        api_key_file=request.api_key_file,
        tls_cert_file=request.tls_cert_file,
        tls_key_file=request.tls_key_file,
        addon_services=addon_services(
            placement.overlays, kit.addon_images, on_gpus=placement.gpus is not None
        ),
        endpoints=ports,
        left_out=hosted.left_out,
        why=_reasons(request, hosted.resolved, placement, image),
    )
    return as_rank(plan, request.rank) if request.rank else plan


def _published(
    request: Request, serve: Serve, ports: tuple[Endpoint, ...], *, container_port: int
) -> Published:
    """Where the engine answers; on loopback alone where an add-on stands before it."""
    return Published(
        bind=LOOPBACK_BIND if stands_for_engine(ports) else request.bind or serve.bind,
        port=request.port or serve.port,
        container_port=container_port,
    )


def plan_environment(placement: Placement, stack_environment: Mapping[str, str]) -> dict[str, str]:
    """The container's environment beyond the base: overlays, then what the topology narrows, then the stack's own."""
    merged: dict[str, str] = {}
    for overlay in placement.overlays:
        merged |= overlay.environment
    return merged | dict(placement.environment) | dict(stack_environment)


def reserve(gpus: GpuChoice | None, facts: HostFacts) -> GpuReservation:
    """The one device request: CDI names where the engine injects by CDI, else the NVIDIA runtime's ids."""
    if gpus is None:
        return GpuReservation(driver=GpuDriver.NONE)
    if facts.engine is not None and facts.engine.gpu_driver == "cdi":
        names = tuple(f"nvidia.com/gpu={gpu}" for gpu in gpus.ids)
        return GpuReservation(driver=GpuDriver.CDI, ids=names, indices=gpus.indices)
    return GpuReservation(driver=GpuDriver.NVIDIA, ids=gpus.ids, indices=gpus.indices)


def cache_volume_prefix(pins_hash: str | None, stage: str) -> str:
    """How the names of an image's cache volumes begin; the GPU architectures follow."""
    return f"{PROJECT_PREFIX}-cache-{pins_hash[:12] if pins_hash else 'own'}-{stage}-"


def plan_mounts(
    models: tuple[PlannedModel, ...], image: ImageChoice, archs: tuple[str, ...]
) -> tuple[Mount, ...]:
    """Model folders read-only, each once, and one cache volume for each image and GPU architecture."""
    folders = dict.fromkeys(
        Mount(kind="bind", source=model.folder, target=model_target(model), read_only=True)
        for model in models
    )
    arch = "-".join(archs).replace(".", "") or "cpu"
    volume = f"{cache_volume_prefix(image.pins_hash, image.stage)}{arch}"
    return (*folders, Mount(kind="volume", source=volume, target=CACHE_ROOT, read_only=False))


def _reasons(
    request: Request, resolved: ResolvedStack, placement: Placement, image: ImageChoice
) -> dict[str, str]:
    why = {path: f"set in {source}" for path, source in resolved.merged.origin.items()}
    why |= {"overlay": placement.overlay_reason, "image": f"release {image.release}, stage {image.stage}"}
    if placement.gpus is not None:
        why["gpus"] = placement.gpus.reason
    if request.port:
        why["serve.port"] = "set by --port"
    if request.bind:
        why["serve.bind"] = "set by --bind"
    return why
