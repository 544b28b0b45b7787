"""Does the project that compose merged still say what was planned?

Overlays are files that users write, and compose merges them: lists append, ``command`` is replaced. So the merged
project is compared with the plan before anything starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kitctl.errors import Exit, KitError
from kitctl.plan.addons import stands_for_engine
from kitctl.plan.types import GpuDriver, Plan
from kitctl.render.compose import SERVICE
from kitctl.render.rank_network import network_merged, network_wanted


def require_as_planned(config: Mapping[str, Any], plan: Plan) -> None:
    """Return when ``docker compose config`` shows the plan's argv, one port, its GPUs and mounts, and no more.

    Raises KitError ``not-as-planned`` (exit 3) with each field that differs.
    """
    services = config.get("services", {})
    engine = services.get(SERVICE, {})
    wanted = _planned(plan) | network_wanted(plan)
    merged = _merged(engine, plan) | network_merged(engine, plan)
    wrong = tuple(
        f"{field}: planned {wanted[field]!r}, merged {merged[field]!r}"
        for field in wanted
        if wanted[field] != merged[field]
    )
    names = [name for name in services if name != SERVICE]
    others = tuple(f"service {name} is not in the plan" for name in names if len(plan.overlays) == 1)
    others += tuple(_strange(addon.name, services.get(addon.name, {}), plan) for addon in plan.addon_services)
    others = tuple(line for line in others if line)
    watchers = {addon.name for addon in plan.addon_services if addon.sees_gpus}
    takers = tuple(
        f"service {name} asks for GPUs too"
        for name in names
        if _devices(services[name]) and name not in watchers
    )
    if wrong or others or takers:
        raise KitError(
            "not-as-planned",
            "the merged compose project is not what was planned",
            evidence=(*wrong, *others, *takers),
            remedy=f"take the differing keys out of the overlays {', '.join(plan.overlays)}",
            exit_code=Exit.REFUSED,
        )


def _planned(plan: Plan) -> dict[str, Any]:
    return {
        "command": list(plan.argv),
        "image": plan.image.reference,
        "ports": []
        if stands_for_engine(plan.endpoints)
        else [f"{plan.published.bind}:{plan.published.port}:{plan.published.container_port}"],
        "devices": [] if plan.gpus.driver is GpuDriver.NONE else [list(plan.gpus.ids)],
        "mounts": sorted((mount.source, mount.target, mount.read_only) for mount in plan.mounts),
        "environment": dict(plan.environment),
        "init": True,
        "read_only": plan.stack.serve.read_only_root,
    }


def _merged(service: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    environment = service.get("environment") or {}
    return {
        "command": [_plain(word) for word in service.get("command") or []],
        "image": service.get("image"),
        "ports": _ports(service),
        "devices": [device.get("device_ids") for device in _devices(service)],
        "mounts": sorted(
            (_plain(m.get("source") or ""), m.get("target"), bool(m.get("read_only")))
            for m in service.get("volumes", [])
        ),
        "environment": {
            name: _plain(environment[name] or "") for name in plan.environment if name in environment
        },
        "init": service.get("init"),
        "read_only": bool(service.get("read_only")),
    }


def _ports(service: Mapping[str, Any]) -> list[str]:
    return [
        f"{p.get('host_ip', '')}:{p.get('published')}:{p.get('target')}" for p in service.get("ports", [])
    ]


def _strange(name: str, service: Mapping[str, Any], plan: Plan) -> str:
    """In what an add-on's service differs from the plan; empty when in nothing."""
    image = next(one.image for one in plan.addon_services if one.name == name)
    if service.get("image") != image:
        return f"service {name}: planned image {image!r}, merged {service.get('image')!r}"
    wanted = sorted(f"{e.bind}:{e.port}:{e.container_port}" for e in plan.endpoints if e.service == name)
    if sorted(_ports(service)) != wanted:
        return f"service {name}: planned ports {wanted}, merged {sorted(_ports(service))}"
    return ""


def _devices(service: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    reservations = service.get("deploy", {}).get("resources", {}).get("reservations", {})
    return [*reservations.get("devices", []), *service.get("gpus", [])]


def _plain(text: str) -> str:
    """As it was before it was written for compose, which prints each dollar sign twice."""
    return text.replace("$$", "$")
