"""Does the project that compose merged still say what was planned?

Overlays are files that users write, and compose merges them: lists append, ``command`` is replaced. So the merged
project is compared with the plan before anything starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kitctl.errors import Exit, KitError
from kitctl.plan.types import GpuDriver, Plan
from kitctl.render.compose import SERVICE


def require_as_planned(config: Mapping[str, Any], plan: Plan) -> None:
    """Return when ``docker compose config`` shows the plan's argv, one port, its GPUs and mounts, and no more.

    Raises KitError ``not-as-planned`` (exit 3) with each field that differs.
    """
    service = config.get("services", {}).get(SERVICE, {})
    wanted, merged = _planned(plan), _merged(service)
    wrong = tuple(
        f"{field}: planned {wanted[field]!r}, merged {merged[field]!r}"
        for field in wanted
        if wanted[field] != merged[field]
    )
    others = tuple(
        name for name in config.get("services", {}) if name != SERVICE and not plan_allows(plan, name)
    )
    if wrong or others:
        raise KitError(
            "not-as-planned",
            "the merged compose project is not what was planned",
            evidence=(*wrong, *(f"service {name} is not in the plan" for name in others)),
            remedy=f"take the differing keys out of the overlays {', '.join(plan.overlays)}",
            exit_code=Exit.REFUSED,
        )


def plan_allows(plan: Plan, service: str) -> bool:
    """Services besides the engine come only with add-on overlays."""
    del service
    return len(plan.overlays) > 1


def _planned(plan: Plan) -> dict[str, Any]:
    return {
        "command": list(plan.argv),
        "image": plan.image.reference,
        "ports": [f"{plan.published.bind}:{plan.published.port}:{plan.published.container_port}"],
        "devices": [] if plan.gpus.driver is GpuDriver.NONE else [list(plan.gpus.ids)],
        "mounts": sorted((mount.target, mount.read_only) for mount in plan.mounts),
        "init": True,
    }


def _merged(service: Mapping[str, Any]) -> dict[str, Any]:
    reservations = service.get("deploy", {}).get("resources", {}).get("reservations", {})
    devices = [*reservations.get("devices", []), *service.get("gpus", [])]
    return {
        "command": [word.replace("$$", "$") for word in service.get("command") or []],
        "image": service.get("image"),
        "ports": [
            f"{p.get('host_ip', '')}:{p.get('published')}:{p.get('target')}" for p in service.get("ports", [])
        ],
        "devices": [device.get("device_ids") for device in devices],
        "mounts": sorted((m.get("target"), bool(m.get("read_only"))) for m in service.get("volumes", [])),
        "init": service.get("init"),
    }
