"""Does one pod start, serve and keep its secrets: probes, memory, model, image, rights?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from kitctl.render.kubernetes_hit import Hit
from kitctl.render.kubernetes_settings import KubernetesSettings
from kitctl.render.kubernetes_view import Container, PodView, Workload

_SECRET = re.compile(r"(TOKEN|PASSWORD|PASSWD|SECRET|API_?KEY|CREDENTIALS?)$")
_SECRET_FLAGS = ("--api-key", "--admin-api-key", "--ssl-keyfile-password")
_PATH_FLAGS = ("--model-path", "--speculative-draft-model-path")


def pod_hits(load: Workload, settings: KubernetesSettings) -> Iterator[Hit]:
    """All rules on single pods: those on text and secrets hold for every container."""
    for pod in load.pods:
        for container in pod.containers:
            where = f"{load.where}: {f'{pod.role} ' if pod.role else ''}{container.name}"
            yield from _texts(where, container)
            yield from _secrets(where, container)
    for where, pod, engine in load.engines():
        yield from _probes(where, pod, engine, settings)
        yield from _memory(where, engine)
        yield from _model(where, engine)
        if engine.as_root:
            yield Hit("k8s-root", where, (), {"what": engine.as_root})


def _texts(where: str, container: Container) -> Iterator[Hit]:
    fields = [(f"env {name}", value) for name, value in container.env.items()]
    fields += [(f"word {place} of command and args", word) for place, word in enumerate(container.words)]
    for name, value in fields:
        if not isinstance(value, str):
            yield Hit("k8s-not-text", where, (), {"field": name, "value": value})


def _secrets(where: str, container: Container) -> Iterator[Hit]:
    for name, value in container.env.items():
        if value and _SECRET.search(name.upper()):
            yield Hit("k8s-literal-secret", where, (), {"name": name})
    for name in _SECRET_FLAGS:
        value = container.flags.get(name)
        if value is not None and not re.fullmatch(r"\$\([A-Za-z_][A-Za-z0-9_]*\)", value):
            yield Hit("k8s-literal-secret", where, (), {"name": name})


def _probes(where: str, pod: PodView, engine: Container, settings: KubernetesSettings) -> Iterator[Hit]:
    startup = engine.probes.get("startupProbe")
    if startup is None:
        code = "k8s-liveness-during-load" if "livenessProbe" in engine.probes else "k8s-no-startup-probe"
        yield Hit(code, where)
    elif pod.start_period_s is not None:
        needed = settings.startup_budget_s(pod.start_period_s)
        if startup.budget_s < needed:
            yield Hit("k8s-startup-budget", where, (), {"budget": startup.budget_s, "needed": needed})
    if "readinessProbe" not in engine.probes:
        yield Hit("k8s-no-readiness-probe", where)
    least = settings.probes.timeout_least_s
    for name, probe in engine.probes.items():
        if probe.timeout_s < least:
            numbers = {"probe": name, "timeout": probe.timeout_s, "least": least}
            yield Hit("k8s-probe-timeout", where, (), numbers)


def _memory(where: str, engine: Container) -> Iterator[Hit]:
    if not engine.has_shm:
        yield Hit("k8s-shm-missing", where)
        return
    shm, limit = engine.shm_bytes, engine.memory_bytes
    if limit is not None and (shm is None or shm > limit):
        named = "without bound" if shm is None else f"{shm} bytes"
        yield Hit("k8s-shm-against-memory", where, (), {"shm": named, "limit": f"{limit} bytes"})


def _model(where: str, engine: Container) -> Iterator[Hit]:
    if engine.env.get("HF_HUB_OFFLINE") != "1":
        yield Hit("k8s-hub-online", where)
    for flag in _PATH_FLAGS:
        path = PurePosixPath(engine.flags.get(flag, ""))
        if not path.is_absolute():
            continue
        mount = next((one for one in engine.mounts if path.is_relative_to(one.path)), None)
        if mount is None:
            yield Hit("k8s-model-not-mounted", where, (flag,), {"path": path})
        elif not mount.read_only:
            yield Hit("k8s-model-writable", where, (flag,), {"path": mount.path})
