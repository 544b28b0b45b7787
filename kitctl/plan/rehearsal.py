"""What does a stack say on the kind of host it goes to, and what must a rehearsal leave out?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kitctl.errors import Exit, KitError
from kitctl.kit.catalog import KitTexts, ResolvedStack, pick_named_overlay, resolve_stack
from kitctl.kit.layers import Layer, value_at
from kitctl.kit.overlay import Overlay, Reservations
from kitctl.plan.types import Request


@dataclass(frozen=True, kw_only=True)
class HostedStack:
    """A stack as its kind of host runs it; ``left_out`` pairs each dropped setting with the reason."""

    resolved: ResolvedStack
    left_out: tuple[tuple[str, str], ...] = ()


def resolve_for_host(texts: KitTexts, request: Request, overlays: Mapping[str, Overlay]) -> HostedStack:
    """The stack of ``request`` with what its host kind adds or takes away.

    An overlay's settings hold where the stack is silent; in a rehearsal they replace the stack's own, and what the
    host kind cannot honour is left out. Raises KitError as ``resolve_stack`` does.
    """
    plain = resolve_stack(texts, request.stack, settings=request.settings)
    overlay = fixed_overlay(request, overlays, stage=plain.stack.image.stage)
    if overlay is None:
        return HostedStack(resolved=plain)
    if not request.rehearse:
        below = [settings_layer(overlay)]
        return HostedStack(
            resolved=resolve_stack(texts, request.stack, settings=request.settings, below=below)
        )
    left = tuple(
        (path, why)
        for path, why in overlay.block.leaves_out.items()
        if value_at(plain.merged.tree, path) is not None
    )
    gone = [path for path, _ in left]
    resolved = resolve_stack(
        texts,
        request.stack,
        settings=[(path, value) for path, value in request.settings if not _lies_below(path, gone)],
        above=[settings_layer(overlay), Layer(source=overlay.source, tree=overlay.block.rehearsal)],
        without=gone,
    )
    return HostedStack(resolved=resolved, left_out=left)


def _lies_below(path: str, places: Sequence[str]) -> bool:
    return any(path == place or path.startswith(f"{place}.") for place in places)


def fixed_overlay(request: Request, overlays: Mapping[str, Overlay], *, stage: str) -> Overlay | None:
    """The overlay that no topology decides: the one asked for, the rehearsal's, or the one made for the stage."""
    if request.overlay:
        named = pick_named_overlay(overlays, request.overlay)
        if request.rehearse and named.block.reservations is Reservations.GPU:
            raise _rehearsal_on_gpus(named)
        return named
    if request.rehearse:
        return rehearsal_overlay(overlays)
    return next((overlay for overlay in overlays.values() if overlay.block.stage == stage), None)


def _rehearsal_on_gpus(overlay: Overlay) -> KitError:
    return KitError(
        "rehearsal-on-gpus",
        f"a rehearsal reserves no GPUs, and the overlay {overlay.name} is for hosts whose GPUs are reserved",
        remedy="leave --overlay out, or --rehearse",
        exit_code=Exit.USAGE,
    )


def stack_wants_gpus(request: Request, overlays: Mapping[str, Overlay], *, stage: str) -> bool:
    """Whether GPUs will be reserved, as far as no topology decides it."""
    fixed = fixed_overlay(request, overlays, stage=stage)
    return fixed is None or fixed.block.reservations is Reservations.GPU


def rehearsal_overlay(overlays: Mapping[str, Overlay]) -> Overlay:
    """The overlay without GPUs on which any stack is rehearsed. Raises KitError ``no-rehearsal`` (exit 2)."""
    for overlay in overlays.values():
        if overlay.block.stage and overlay.block.reservations is Reservations.NONE:
            return overlay
    raise KitError(
        "no-rehearsal",
        "the kit holds no overlay without GPUs, so nothing can be rehearsed",
        remedy="restore compose/overlays/cpu.yaml",
        exit_code=Exit.USAGE,
    )


def settings_layer(overlay: Overlay) -> Layer:
    """The overlay's settings, and the image stage that it is made for, as a layer of a stack."""
    stage = {"image": {"stage": overlay.block.stage}} if overlay.block.stage else {}
    return Layer(source=overlay.source, tree={**overlay.block.settings, **stage})
