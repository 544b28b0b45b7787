"""Which overlay fits the links of the reserved GPUs, and which NCCL level?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kitctl.errors import Exit, KitError
from kitctl.host.facts import Topology
from kitctl.host.topology import LinkClass, Verdict, classify, spans_numa_nodes
from kitctl.kit.near import did_you_mean
from kitctl.kit.overlay import Overlay, P2pLevel

LEVEL_VARIABLE = "NCCL_P2P_LEVEL"


@dataclass(frozen=True, kw_only=True)
class OverlayChoice:
    """The overlay and why.

    ``name`` is ``None`` when the links leave it open or no overlay serves their class: ``reason`` says so.
    ``environment`` replaces variables of the overlay in the rendered file, each explained in
    ``environment_reasons``.
    """

    name: str | None
    reason: str
    links: LinkClass | None
    is_forced: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    environment_reasons: Mapping[str, str] = field(default_factory=dict)


def choose_overlay(
    topology: Topology | None,
    gpu_indices: Iterable[int],
    overlays: Sequence[Overlay],
    *,
    forced: str | None = None,
) -> OverlayChoice:
    """The overlay that serves the link class of ``gpu_indices``, or ``forced``, recorded as such.

    One GPU has no links, so that its class is known without a topology. Raises KitError
    ``unknown-overlay`` (exit 2) when ``forced`` names none.
    """
    gpus = tuple(gpu_indices)
    verdict = _verdict(topology, gpus)
    chosen = _forced(overlays, forced) if forced is not None else _serving(overlays, verdict)
    if chosen is None:
        return OverlayChoice(name=None, reason=_why_none(verdict), links=verdict.links)
    level = _level(chosen.block.p2p_level, topology, gpus, is_single=verdict.links is LinkClass.SINGLE)
    return OverlayChoice(
        name=chosen.name,
        reason=_why(verdict, forced),
        links=verdict.links,
        is_forced=forced is not None,
        environment={LEVEL_VARIABLE: level[0]} if level else {},
        environment_reasons={LEVEL_VARIABLE: level[1]} if level else {},
    )


def _verdict(topology: Topology | None, gpus: tuple[int, ...]) -> Verdict:
    if topology is not None:
        return classify(topology, gpus)
    if len(set(gpus)) == 1:
        return Verdict(links=LinkClass.SINGLE, reason=f"GPU{gpus[0]} alone: there is no link to choose for")
    return Verdict(links=None, reason="the links of the host's GPUs are unknown")


def _forced(overlays: Sequence[Overlay], name: str) -> Overlay:
    found = next((overlay for overlay in overlays if overlay.name == name), None)
    if found is None:
        known = tuple(overlay.name for overlay in overlays)
        raise KitError(
            "unknown-overlay",
            f"there is no overlay {name!r}; {did_you_mean(name, known)}",
            evidence=(f"overlays: {' '.join(known)}",),
            remedy="take one that 'kitctl overlays' lists",
            exit_code=Exit.USAGE,
        )
    return found


def _serving(overlays: Sequence[Overlay], verdict: Verdict) -> Overlay | None:
    return next((overlay for overlay in overlays if verdict.links in overlay.block.links), None)


def _why_none(verdict: Verdict) -> str:
    return verdict.reason if verdict.links is None else f"no overlay serves {verdict.links}: {verdict.reason}"


def _why(verdict: Verdict, forced: str | None) -> str:
    if forced is None:
        return verdict.reason
    return f"asked for; by its links ({verdict.links or 'unknown'}): {verdict.reason}"


def _level(
    levels: P2pLevel | None, topology: Topology | None, gpus: tuple[int, ...], *, is_single: bool
) -> tuple[str, str] | None:
    """NCCL's level and why; ``None`` leaves the overlay's own value (also where the sockets are unknown)."""
    spans = spans_numa_nodes(topology, gpus) if topology is not None and not is_single else None
    if levels is None or spans is None:
        return None
    if spans:
        return levels.across_numa.value, "the reserved GPUs are on several NUMA nodes"
    return levels.within_numa.value, "the reserved GPUs share one NUMA node"
