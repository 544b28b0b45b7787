"""What does a compose overlay tell kitctl in its ``x-kitctl`` block?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from kitctl.errors import Exit, KitError
from kitctl.kit.stack import Port
from kitctl.kit.typed import read_typed

FlagValue = str | int | float | bool


class Reservations(StrEnum):
    """Whether stacks on this kind of host get GPUs."""

    GPU = "gpu"
    NONE = "none"


class NcclLevel(StrEnum):
    """NCCL's names for the farthest distance at which P2P is used (NCCL 2.28 user guide, NCCL_P2P_LEVEL)."""

    LOC = "LOC"
    NVL = "NVL"
    PIX = "PIX"
    PXB = "PXB"
    PHB = "PHB"
    SYS = "SYS"


class P2pLevel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """NCCL_P2P_LEVEL for GPUs of one NUMA node and for GPUs on several."""

    within_numa: NcclLevel
    across_numa: NcclLevel


class Scope(StrEnum):
    """Who an add-on's port is for: clients at ``--bind``, this host alone, or whoever the engine's port is for, in
    whose place it then stands (the engine publishes none)."""

    PUBLIC = "public"
    LOOPBACK = "loopback"
    ENGINE = "engine"


class PublishBlock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A port of an add-on's service. ``port`` on the host (``serve.ports.NAME`` replaces it); the engine's for
    ``engine``."""

    service: str
    container_port: Port
    scope: Scope
    port: Port | None = None


class OverlayBlock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ``x-kitctl`` block of an overlay.

    ``links`` are the topology classes that it serves (an add-on serves none and is asked for by name);
    ``flags`` are engine flags (underscored names) of this host kind, ``flags_above_tp2`` those for tensor
    parallel groups of more than two GPUs. ``settings`` hold where a stack is silent and replace its own in a
    rehearsal, ``rehearsal`` is what a rehearsal alone says besides (its model, and what that answers); ``leaves_out``
    maps each stack setting that such a host cannot honour to the reason. ``images`` maps
    each service that an add-on brings to its entry in ``addon-images.yaml``, ``publish`` names their ports, and
    ``gpu_services`` are those that watch the reserved GPUs and are left out where there are none; ``needs`` are the
    add-ons without which it makes no sense.
    """

    summary: str
    links: tuple[str, ...] = ()
    reservations: Reservations = Reservations.GPU
    stage: str | None = None
    flags: dict[str, FlagValue] = {}
    flags_above_tp2: dict[str, FlagValue] = {}
    settings: dict[str, Any] = {}
    rehearsal: dict[str, Any] = {}
    leaves_out: dict[str, str] = {}
    p2p_level: P2pLevel | None = None
    images: dict[str, str] = {}
    gpu_services: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    publish: dict[str, PublishBlock] = {}


@dataclass(frozen=True, kw_only=True)
class Overlay:
    """One overlay file: its block for kitctl, and its text and environment for compose.

    ``files`` are those of ``addons/NAME/``, which its services mount, by the names that they have beside the overlay.
    """

    name: str
    source: str
    text: str
    block: OverlayBlock
    environment: Mapping[str, str]
    ulimits: Mapping[str, Any]
    files: Mapping[str, str] = field(default_factory=dict)


FORBIDDEN_KEYS = ("command", "devices", "volumes", "ports", "gpus", "deploy", "image", "entrypoint")


def read_overlay(
    name: str,
    tree: Mapping[str, Any],
    *,
    source: str,
    text: str,
    files: Mapping[str, str] | None = None,
) -> Overlay:
    """The overlay in ``tree``.

    Raises KitError ``bad-overlay`` (exit 2) for a bad block and for keys that only the rendered stack may
    carry: compose replaces ``command`` and appends devices, ports and mounts when overlays merge.
    """
    block = read_typed(
        _map_at(tree, "x-kitctl", source),
        OverlayBlock,
        source_of=lambda _: f"{source}: x-kitctl",
        code="bad-overlay",
    )
    services = _map_at(tree, "services", source)
    service = _map_at(services, "engine", f"{source}: services")
    wrong = [key for key in FORBIDDEN_KEYS if key in service]
    if wrong:
        raise _forbidden_key(source, wrong[0])
    _check_addon(block, services, source)
    return Overlay(
        name=name,
        source=source,
        text=text,
        block=block,
        environment=_environment(service, f"{source}: services.engine"),
        ulimits=_map_at(service, "ulimits", f"{source}: services.engine"),
        files=files or {},
    )


def _check_addon(block: OverlayBlock, services: Mapping[str, Any], source: str) -> None:
    """The services that the block speaks of are there, and leave image and ports to the rendered stack."""
    named = {
        **dict.fromkeys(block.images, "images"),
        **{p.service: "publish" for p in block.publish.values()},
    }
    for service, where in named.items():
        if service not in services or service == "engine":
            raise _bad(
                f"{source}: x-kitctl.{where}: the file has no service {service} beside the engine", source
            )
        held = [key for key in ("image", "ports") if key in _map_at(services, service, source)]
        if held:
            raise _bad(f"{source}: services.{service}.{held[0]}: x-kitctl.{where} says it already", source)
    for name, port in block.publish.items():
        if (port.port is None) != (port.scope is Scope.ENGINE):
            raise _bad(f"{source}: x-kitctl.publish.{name}.port: for every scope but engine", source)


def _map_at(tree: Mapping[str, Any], key: str, place: str) -> Mapping[str, Any]:
    """The mapping below ``key``; an absent or empty one is empty."""
    found = tree.get(key)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise _bad(f"{place}: {key}: must be a mapping", place)
    return found


def _environment(service: Mapping[str, Any], place: str) -> dict[str, str]:
    """The environment as a process sees it: compose writes a dollar sign as two."""
    found = {}
    for name, value in _map_at(service, "environment", place).items():
        text = str(value).replace("$$", "\0")
        if "$" in text or value is None or isinstance(value, bool):
            raise _bad(
                f"{place}.environment.{name}: the value must stand in the file itself, as text or number",
                place,
            )
        found[str(name)] = text.replace("\0", "$")
    return found


def _bad(cause: str, place: str) -> KitError:
    return KitError("bad-overlay", cause, remedy=f"mend it in {place}", exit_code=Exit.USAGE)


def _forbidden_key(source: str, key: str) -> KitError:
    return KitError(
        "bad-overlay",
        f"{source}: services.engine.{key} may not stand in an overlay",
        evidence=("compose replaces command and appends devices, ports and mounts of merged files",),
        remedy=f"remove services.engine.{key} from {source}; the rendered stack carries it",
        exit_code=Exit.USAGE,
    )
