"""Write a plan down as a folder that a person can read and run with plain ``docker compose up``.

Compose merges, not kitctl: ``base.yaml`` and the overlays are copied as they are; ``stack.yaml`` alone carries
image, command, GPU ids, ports, mounts, labels and limits, because compose appends ``devices`` and ``ports`` of
merged files and replaces ``command``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from kitctl.kit.overlay import Overlay, Scope
from kitctl.plan.addons import stands_for_engine
from kitctl.plan.planner import CACHE_ROOT
from kitctl.plan.types import GpuDriver, Mount, Plan
from kitctl.render.rank_network import across_hosts, on_host_network

LABEL = "io.kitctl"
SERVICE = "engine"
STACK_FILE = "stack.yaml"
KEY_FILE = "api-key"
TLS_FILE = "tls.pem"
LAUNCHER_FILE = "serve_with_key.py"
KEY_VARIABLE = "KITCTL_API_KEY_FILE"

RESTART_AT_BOOT = "unless-stopped"
RESTART_NEVER = "no"
RESTART_ADDON = "on-failure"
PROFILE_OFF = "off"
INNER_NETWORK = "inner"
"""Where the engine and the add-ons' services meet; it has no way out."""
_LOOPBACK_OF = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_PLAIN = re.compile(r"(--)?[A-Za-z/].*", re.DOTALL)


def render_compose(
    plan: Plan,
    *,
    base: str,
    overlays: tuple[Overlay, ...],
    run_id: str = "",
    key_files: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The folder's files by name: base, overlays, ``stack.yaml`` and the ``.env`` that names them in order.

    ``run_id`` is written into the container's labels; ``key_files`` are those of ``key_files()`` for a plan with a key.
    """
    files = {"base.yaml": base}
    for overlay in overlays:
        files[f"overlay-{overlay.name}.yaml"] = across_hosts(overlay.text, plan)
    order = [*files, STACK_FILE]
    for overlay in overlays:
        files |= overlay.files
    files[STACK_FILE] = _yaml(stack_tree(plan, run_id=run_id, left_out=_left_out(plan, overlays)))
    files[".env"] = f"COMPOSE_PROJECT_NAME={plan.project}\nCOMPOSE_FILE={':'.join(order)}\n"
    return files | dict(key_files or {})


def key_files(api_key: str, launcher: str) -> dict[str, str]:
    """The API key, and the launcher that reads it from its file, so that no argv, log or label holds it."""
    return {KEY_FILE: f"{api_key}\n", LAUNCHER_FILE: launcher}


def _left_out(plan: Plan, overlays: tuple[Overlay, ...]) -> tuple[str, ...]:
    """Services that an add-on's file names and this plan has no use for."""
    used = {service.name for service in plan.addon_services}
    return tuple(name for overlay in overlays for name in overlay.block.images if name not in used)


def stack_tree(plan: Plan, *, run_id: str = "", left_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """``stack.yaml`` as a tree. ``left_out`` are services of overlays that do not run."""
    serve = plan.stack.serve
    service: dict[str, Any] = {
        "image": plan.image.reference,
        "command": list(plan.argv),
        "environment": container_environment(plan),
        **_engine_port(plan),
        "volumes": [_mount(mount) for mount in plan.mounts],
        "shm_size": serve.shm_size_bytes,
        "stop_grace_period": f"{serve.stop_grace_s}s",
        "healthcheck": {"start_period": f"{serve.start_period_s}s"},
        "labels": {**labels(plan), **({f"{LABEL}.run": run_id} if run_id else {})},
    }
    if plan.boot:
        service["restart"] = RESTART_AT_BOOT
    if not serve.read_only_root:
        service["read_only"] = False
    service |= _devices(plan) | _secret(plan)
    service = on_host_network(service, plan)
    off = {name: {"image": "none", "profiles": [PROFILE_OFF]} for name in left_out}
    tree: dict[str, Any] = {"services": {SERVICE: service, **_addons(plan), **off}}
    volumes = {m.source: {"name": m.source} for m in plan.mounts if m.kind == "volume"}
    if volumes:
        tree["volumes"] = volumes
    if plan.api_key_file:
        tree["secrets"] = {KEY_FILE: {"file": f"./{KEY_FILE}"}, "launcher": {"file": f"./{LAUNCHER_FILE}"}}
    if needs_certificate(plan):
        tree.setdefault("secrets", {})[TLS_FILE] = {"file": f"./{TLS_FILE}"}
    return tree


def needs_certificate(plan: Plan) -> bool:
    """Whether an add-on's port is for clients beyond this host."""
    return any(one.scope is Scope.PUBLIC for one in plan.endpoints)


def _addons(plan: Plan) -> dict[str, Any]:
    """Image, ports and secrets of each service that an add-on brings; the overlay carries the rest."""
    services: dict[str, Any] = {}
    for addon in plan.addon_services:
        ends = [one for one in plan.endpoints if one.service == addon.name]
        services[addon.name] = {
            "image": addon.image,
            "restart": RESTART_AT_BOOT if plan.boot else RESTART_ADDON,
            **({"ports": [_port(one.bind, one.port, one.container_port) for one in ends]} if ends else {}),
            **(_devices(plan) if addon.sees_gpus else {}),
        }
        if any(one.scope is Scope.PUBLIC for one in ends):
            wanted = [TLS_FILE, *([KEY_FILE] if plan.api_key_file else [])]
            services[addon.name]["secrets"] = [{"source": name, "target": name} for name in wanted]
    return services


def _engine_port(plan: Plan) -> dict[str, Any]:
    """The engine's port and networks: no port, and no way out, where an add-on stands in its place."""
    own = plan.published
    if stands_for_engine(plan.endpoints):
        return {"networks": [INNER_NETWORK]}
    networks = {"networks": ["default", INNER_NETWORK]} if plan.addon_services else {}
    return {"ports": [_port(own.bind, own.port, own.container_port)], **networks}


def _port(bind: str, port: int, container_port: int) -> dict[str, Any]:
    return {
        "target": container_port,
        "published": str(port),
        "host_ip": bind,
        "protocol": "tcp",
        "mode": "host",
    }


def container_environment(plan: Plan) -> dict[str, str]:
    """The plan's, by name. In an image that the kit did not build, the cache volume is home as well: nothing else
    than it and /tmp can be written there."""
    home = {"HOME": CACHE_ROOT} if plan.image.name is None else {}
    return dict(sorted((home | dict(plan.environment)).items()))


def labels(plan: Plan) -> dict[str, str]:
    """What the container says of itself: enough to find it again and to see whether it is as planned."""
    return {
        f"{LABEL}.stack": plan.stack.name,
        f"{LABEL}.plan": fingerprint(plan),
        f"{LABEL}.overlays": ",".join(plan.overlays),
        f"{LABEL}.rehearsal": str(plan.rehearsal).lower(),
        f"{LABEL}.url": base_url(plan),
        f"{LABEL}.model": plan.model_name,
        f"{LABEL}.gpus": ",".join(plan.gpus.ids),
    } | {
        f"{LABEL}.port.{one.name}": f"{one.bind}:{one.port}"
        for one in plan.endpoints
        if one.scope is not Scope.ENGINE
    }


def base_url(plan: Plan) -> str:
    """Where a client on the host reaches the stack."""
    bind = plan.published.bind
    host = _LOOPBACK_OF.get(bind, bind)
    return f"http://{f'[{host}]' if ':' in host else host}:{plan.published.port}"


def fingerprint(plan: Plan) -> str:
    """One hash over all that decides what runs: image, argv, environment, GPUs, mounts, port, limits.

    Two plans with the same fingerprint give the same container.
    """
    return hashlib.sha256(json.dumps(decisive(plan), sort_keys=True).encode()).hexdigest()[:16]


def decisive(plan: Plan) -> dict[str, Any]:
    """The fields that the fingerprint covers, by name: what ``up`` compares with a running stack."""
    more: dict[str, Any] = {} if plan.stack.serve.read_only_root else {"read_only_root": False}
    if plan.addon_services:
        more["addons"] = {one.name: one.image for one in plan.addon_services}
        more["endpoints"] = [f"{one.name}={one.bind}:{one.port}" for one in plan.endpoints]
    return more | {
        "image": plan.image.reference,
        "argv": list(plan.argv),
        "environment": dict(plan.environment),
        "gpus": [plan.gpus.driver.value, *plan.gpus.ids],
        "mounts": [f"{m.source}:{m.target}:{'ro' if m.read_only else 'rw'}" for m in plan.mounts],
        "published": f"{plan.published.bind}:{plan.published.port}",
        "overlays": list(plan.overlays),
        "limits": [plan.stack.serve.shm_size_bytes, plan.stack.serve.stop_grace_s],
        "restart": RESTART_AT_BOOT if plan.boot else RESTART_NEVER,
        "api_key": plan.api_key_file is not None,
    }


def _mount(mount: Mount) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "type": mount.kind,
        "source": mount.source,
        "target": mount.target,
        "read_only": mount.read_only,
    }
    if mount.kind == "bind":
        tree["bind"] = {"create_host_path": False}
    return tree


def _devices(plan: Plan) -> dict[str, Any]:
    if plan.gpus.driver is GpuDriver.NONE:
        return {}
    capabilities = ["gpu", "compute", "utility"] if plan.gpus.driver is GpuDriver.NVIDIA else ["gpu"]
    device = {
        "driver": plan.gpus.driver.value,
        "device_ids": list(plan.gpus.ids),
        "capabilities": capabilities,
    }
    return {"deploy": {"resources": {"reservations": {"devices": [device]}}}}


def _secret(plan: Plan) -> dict[str, Any]:
    if not plan.api_key_file:
        return {}
    return {
        "entrypoint": ["python3", f"/run/secrets/{LAUNCHER_FILE}"],
        "secrets": [
            {"source": KEY_FILE, "target": KEY_FILE},
            {"source": "launcher", "target": LAUNCHER_FILE},
        ],
        "environment": {**container_environment(plan), KEY_VARIABLE: f"/run/secrets/{KEY_FILE}"},
    }


class _Dumper(yaml.SafeDumper):
    pass


_Dumper.add_representer(str, lambda dumper, text: _scalar(dumper, text))


def _scalar(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Text, with ``$`` doubled so that compose does not interpolate it.

    What might be a number is quoted: compose's reader takes ``1e3`` for one, PyYAML's does not.
    """
    style = None if _PLAIN.fullmatch(text) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text.replace("$", "$$"), style=style)


def _yaml(tree: Mapping[str, Any]) -> str:
    head = "# Rendered by kitctl; the labels tell from which plan. Run it without kitctl: docker compose up\n"
    return head + yaml.dump(tree, Dumper=_Dumper, sort_keys=False, width=100)


def plan_json(plan: Plan) -> dict[str, Any]:
    """``plan --json``: the versioned contract ``kitctl.plan/1``."""
    body: dict[str, Any] = msgspec.to_builtins(plan)
    stack = body.pop("stack")
    return {
        "schema": "kitctl.plan/1",
        "stack": stack["name"],
        "fingerprint": fingerprint(plan),
        "url": base_url(plan),
        "settings": stack,
        "decisive": decisive(plan),
        **body,
    }
