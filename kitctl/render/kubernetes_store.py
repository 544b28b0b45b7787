"""How do the models get onto the nodes? One claim, and a Job in which kitctl fetches and proves them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from kitctl.kit.models_lock import ModelEntry, ModelsLock
from kitctl.kit.models_lock_text import write_models_lock
from kitctl.plan.engine_command import model_target
from kitctl.plan.types import Plan
from kitctl.render.compose import LABEL, fingerprint
from kitctl.render.kubernetes_settings import KubernetesSettings

STORE = "/store"
KIT = "/kit"
SCRATCH = "/scratch"


def model_mounts(plan: Plan) -> list[dict[str, Any]]:
    """Each model's folder of the claim, read-only, where the planned argv looks for it."""
    return [
        {
            "name": "models",
            "mountPath": model_target(model),
            "subPath": PurePosixPath(model.folder).name,
            "readOnly": True,
        }
        for model in plan.models
    ]


def store_volumes(plan: Plan) -> list[dict[str, Any]]:
    """What a pod needs to run kitctl on the store: the claim, the lock, and a place to write."""
    return [
        {"name": "models", "persistentVolumeClaim": {"claimName": f"{plan.project}-models"}},
        {"name": "kit", "configMap": {"name": f"{plan.project}-kit"}},
        {"name": "scratch", "emptyDir": {}},
    ]


def pod_security(settings: KubernetesSettings) -> dict[str, Any]:
    """The image's own user, who may write into the volumes, under the runtime's system call filter."""
    user = settings.run_as_user
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def store_manifests(
    plan: Plan, entries: Mapping[str, ModelEntry], nodes: int, image: str, settings: KubernetesSettings
) -> dict[str, dict[str, Any]]:
    """Claim, lock and Job by file name."""
    lock = ModelsLock(
        models=tuple(sorted({e.repo: e for e in entries.values()}.values(), key=lambda e: e.repo))
    )
    return {
        "models-claim.yaml": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": f"{plan.project}-models"},
            "spec": {
                "accessModes": ["ReadWriteMany" if nodes > 1 else "ReadWriteOnce"],
                "resources": {"requests": {"storage": claim_size(entries, settings)}},
            },
        },
        "models-lock.yaml": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{plan.project}-kit"},
            "data": {"models.lock": write_models_lock(lock)},
        },
        "models-job.yaml": _job(plan, entries, image, settings),
    }


def claim_size(entries: Mapping[str, ModelEntry], settings: KubernetesSettings) -> str:
    """Room for all models of known size and what the store keeps beside them."""
    known = sum(entry.size_bytes or 0 for entry in entries.values())
    size = max(known * settings.store.headroom, settings.store.least_bytes)
    return f"{math.ceil(size / 1024**3)}Gi"


def wait_for_store(
    plan: Plan, entries: Mapping[str, ModelEntry], image: str, settings: KubernetesSettings
) -> dict[str, Any]:
    """The container that holds a pod until the store is whole, so that ranks start together and none restarts."""
    ready = f"kitctl models verify {_names(entries)} --quick"
    loop = f"until {ready}; do sleep {settings.store.wait_s}; done"
    return _kitctl("store", image, settings, command=["sh", "-c", loop], read_only=True)


def _job(
    plan: Plan, entries: Mapping[str, ModelEntry], image: str, settings: KubernetesSettings
) -> dict[str, Any]:
    """Fetch, then prove every hash. A changed plan is a new Job, because a Job's template cannot change."""
    names = _names(entries)
    pull, verify = f"kitctl models pull {names}", f"kitctl models verify {names} --deep"
    fetch = _kitctl("fetch", image, settings, command=["sh", "-ec", pull], read_only=False)
    prove = _kitctl("prove", image, settings, command=["sh", "-ec", verify], read_only=False)
    fetch["env"] += [
        {
            "name": "HF_TOKEN",
            "valueFrom": {
                "secretKeyRef": {
                    "name": settings.store.token_secret,
                    "key": settings.store.token_key,
                    "optional": True,
                }
            },
        }
    ]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{plan.project}-models-{fingerprint(plan)[:8]}"},
        "spec": {
            "backoffLimit": settings.store.job_retries,
            "template": {
                "metadata": {"annotations": {f"{LABEL}/plan": fingerprint(plan)}},
                "spec": {
                    "restartPolicy": "OnFailure",
                    "automountServiceAccountToken": False,
                    "securityContext": pod_security(settings),
                    "initContainers": [fetch],
                    "containers": [prove],
                    "volumes": store_volumes(plan),
                },
            },
        },
    }


def _kitctl(
    name: str, image: str, settings: KubernetesSettings, *, command: list[str], read_only: bool
) -> dict[str, Any]:
    memory = f"{math.ceil(settings.store.job_memory_bytes / 1024**2)}Mi"
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "env": [
            {"name": "HOME", "value": SCRATCH},
            {"name": "KITCTL_KIT", "value": KIT},
            {"name": "KITCTL_STORE", "value": STORE},
            {"name": "TMPDIR", "value": SCRATCH},
        ],
        "resources": {"requests": {"memory": memory}, "limits": {"memory": memory}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "models", "mountPath": STORE, "readOnly": read_only},
            {"name": "kit", "mountPath": KIT, "readOnly": True},
            {"name": "scratch", "mountPath": SCRATCH},
        ],
    }


def _names(entries: Mapping[str, ModelEntry]) -> str:
    return shlex.join(sorted({entry.repo for entry in entries.values()}))
