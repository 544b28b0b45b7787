"""What does one pod of the server hold: the engine, its probes, limits, environment and volumes?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kitctl.kit.models_lock import ModelEntry
from kitctl.plan.planner import CACHE_ROOT
from kitctl.plan.types import GpuDriver, Plan
from kitctl.render.compose import KEY_FILE, KEY_VARIABLE, LABEL, LAUNCHER_FILE, fingerprint
from kitctl.render.kubernetes_settings import KubernetesSettings
from kitctl.render.kubernetes_store import model_mounts, pod_security, store_volumes, wait_for_store
from kitctl.render.shell import ENTRY

GPU_RESOURCE = "nvidia.com/gpu"
START_PERIOD = f"{LABEL}/start-period-s"
EXPERTS = f"{LABEL}/experts"
CONFIG_DIR = "/etc/kitctl"
KEY_DIR = "/run/secrets/kitctl"
MIB = 1024**2
_SEED = "/seed"
_SEED_MEMORY = "256Mi"


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What the plan does not say: nodes, GPUs of each, models by role, RAM of a start, and the image of kitctl.

    ``launcher`` is the text of the file that hands the engine its API key; ``experts`` how many routed experts the
    model has.
    """

    nodes: int
    gpus_per_node: int
    entries: Mapping[str, ModelEntry]
    ram_bytes: int
    kitctl_image: str
    launcher: str
    experts: int | None = None


def own_labels(plan: Plan) -> dict[str, str]:
    """What all objects of one stack carry."""
    return {"app.kubernetes.io/name": plan.project, "app.kubernetes.io/part-of": "kitctl"}


def pod_template(
    plan: Plan,
    cluster: Cluster,
    environment: Mapping[str, str],
    settings: KubernetesSettings,
    *,
    labels: Mapping[str, str],
) -> dict[str, Any]:
    """The template of the pods with ``labels``; leader and workers differ in nothing else."""
    spec: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": plan.stack.serve.stop_grace_s,
        "securityContext": pod_security(settings),
        "initContainers": [
            wait_for_store(plan, cluster.entries, cluster.kitctl_image, settings),
            *([_copy_kernels(plan)] if plan.gpus.driver is not GpuDriver.NONE else []),
        ],
        "containers": [_engine(plan, cluster, environment, settings)],
        "volumes": _volumes(plan),
    }
    if plan.gpus.driver is not GpuDriver.NONE:
        spec["tolerations"] = [{"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}]
    annotations = {
        f"{LABEL}/plan": fingerprint(plan),
        START_PERIOD: str(plan.stack.serve.start_period_s),
        **({EXPERTS: str(cluster.experts)} if cluster.experts else {}),
    }
    return {"metadata": {"labels": {**own_labels(plan), **labels}, "annotations": annotations}, "spec": spec}


def _copy_kernels(plan: Plan) -> dict[str, Any]:
    """Fill the empty cache with the image's kernels, with their time stamps, as an engine's volume does by itself."""
    return {
        "name": "kernels",
        "image": plan.image.reference,
        "imagePullPolicy": "IfNotPresent",
        "command": [
            "sh",
            "-c",
            f"[ ! -d {CACHE_ROOT} ] || cp -R --preserve=timestamps {CACHE_ROOT}/. {_SEED}",
        ],
        "resources": {"requests": {"memory": _SEED_MEMORY}, "limits": {"memory": _SEED_MEMORY}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "cache", "mountPath": _SEED}],
    }


def _engine(
    plan: Plan, cluster: Cluster, environment: Mapping[str, str], settings: KubernetesSettings
) -> dict[str, Any]:
    own = dict(environment)
    if cluster.nodes > 1:
        own |= dict.fromkeys(("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"), settings.network_interface)
    if plan.api_key_file:
        own[KEY_VARIABLE] = f"{KEY_DIR}/{KEY_FILE}"
    entry = ["python3", f"{CONFIG_DIR}/{LAUNCHER_FILE}"] if plan.api_key_file else list(ENTRY)
    return {
        "name": "engine",
        "image": plan.image.reference,
        "imagePullPolicy": "IfNotPresent",
        "command": entry,
        "args": [*map(_literal, plan.argv), *_ranks(plan, cluster, settings)],
        "env": [{"name": name, "value": _literal(value)} for name, value in sorted(own.items())],
        "ports": [{"name": "http", "containerPort": plan.published.container_port}],
        "resources": _resources(plan, cluster),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": ["IPC_LOCK"]},
            "readOnlyRootFilesystem": plan.stack.serve.read_only_root,
        },
        **_probes(plan.stack.serve.start_period_s, settings),
        "volumeMounts": _mounts(plan),
    }


def _literal(text: str) -> str:
    """Text that Kubernetes leaves as it is: it reads ``$(NAME)`` as a variable and ``$$`` as one dollar sign."""
    return text.replace("$", "$$")


def _ranks(plan: Plan, cluster: Cluster, settings: KubernetesSettings) -> list[str]:
    """The flags of SGLang's own multi-node launch, from the variables that LeaderWorkerSet injects."""
    if cluster.nodes == 1:
        return []
    patience_s = max(settings.dist_timeout_s, settings.startup_budget_s(plan.stack.serve.start_period_s))
    given = any(word.partition("=")[0] == "--dist-timeout" for word in plan.argv)
    return [
        "--nnodes",
        "$(LWS_GROUP_SIZE)",
        "--node-rank",
        "$(LWS_WORKER_INDEX)",
        "--dist-init-addr",
        f"$(LWS_LEADER_ADDRESS):{settings.dist_port}",
        *([] if given else ["--dist-timeout", str(patience_s)]),
    ]


def _probes(start_period_s: int, settings: KubernetesSettings) -> dict[str, Any]:
    """Startup until the load is over, then readiness; no liveness: an engine that ends is restarted anyway."""
    probes = settings.probes
    ask = {"httpGet": {"path": probes.path, "port": "http"}}
    budget_s = settings.startup_budget_s(start_period_s)
    return {
        "startupProbe": {
            **ask,
            "periodSeconds": probes.startup_period_s,
            "timeoutSeconds": probes.startup_timeout_s,
            "failureThreshold": math.ceil(budget_s / probes.startup_period_s),
        },
        "readinessProbe": {
            **ask,
            "periodSeconds": probes.ready_period_s,
            "timeoutSeconds": probes.ready_timeout_s,
            "failureThreshold": probes.ready_failures,
        },
    }


def _resources(plan: Plan, cluster: Cluster) -> dict[str, Any]:
    """Pages of /dev/shm count for the limit, so it covers them beside what the processes take."""
    memory = _mebibytes(plan.stack.serve.shm_size_bytes + cluster.ram_bytes)
    limits = {"memory": memory}
    if plan.gpus.driver is not GpuDriver.NONE:
        limits[GPU_RESOURCE] = str(cluster.gpus_per_node)
    return {"requests": {"memory": memory}, "limits": limits}


def _mebibytes(size_bytes: int) -> str:
    return f"{math.ceil(size_bytes / MIB)}Mi"


def _mounts(plan: Plan) -> list[dict[str, Any]]:
    mounts = [
        *model_mounts(plan),
        {"name": "cache", "mountPath": CACHE_ROOT},
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "shm", "mountPath": "/dev/shm"},
    ]
    if plan.api_key_file:
        mounts.append({"name": "launcher", "mountPath": CONFIG_DIR, "readOnly": True})
        mounts.append({"name": KEY_FILE, "mountPath": KEY_DIR, "readOnly": True})
    return mounts


def _volumes(plan: Plan) -> list[dict[str, Any]]:
    shm = {"medium": "Memory", "sizeLimit": _mebibytes(plan.stack.serve.shm_size_bytes)}
    volumes: list[dict[str, Any]] = [
        *store_volumes(plan),
        {"name": "cache", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
        {"name": "shm", "emptyDir": shm},
    ]
    if plan.api_key_file:
        secret = {"secretName": f"{plan.project}-{KEY_FILE}", "defaultMode": 0o440}
        volumes.append({"name": "launcher", "configMap": {"name": f"{plan.project}-launcher"}})
        volumes.append({"name": KEY_FILE, "secret": secret})
    return volumes
