"""Write a plan down for Kubernetes: a Kustomize folder with one server over one or several nodes.

Several nodes are one LeaderWorkerSet (kubernetes-sigs/lws v0.9.0), which gives every pod the rank, the size and the
leader's name that SGLang's own multi-node launch asks for; one node is a Deployment. Nothing here schedules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from kitctl.errors import Exit, KitError
from kitctl.kit.models_lock import LockState
from kitctl.kit.stack import Algorithm
from kitctl.plan.types import GpuDriver, Plan
from kitctl.render.compose import LAUNCHER_FILE, container_environment, fingerprint
from kitctl.render.kubernetes_pod import Cluster, own_labels, pod_template
from kitctl.render.kubernetes_settings import KubernetesSettings
from kitctl.render.kubernetes_store import store_manifests

LWS_LABEL = "leaderworkerset.sigs.k8s.io/name"
_OWN_FLAGS = ("--nnodes", "--node-rank", "--dist-init-addr")


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """The folder's files by name, the manifests in them, and the environment that was left out with its values."""

    files: Mapping[str, str]
    manifests: tuple[Mapping[str, Any], ...]
    left_out: Mapping[str, str]


def render_kubernetes(
    plan: Plan, cluster: Cluster, *, base_environment: Mapping[str, str], settings: KubernetesSettings
) -> Rendered:
    """The Kustomize folder. Raises what ``require_layout`` raises."""
    require_layout(plan, cluster)
    left_out = _left_out(plan, cluster, settings)
    environment = {
        k: v for k, v in {**base_environment, **container_environment(plan)}.items() if k not in left_out
    }
    workload = _workload(plan, cluster, environment, settings)
    documents = {
        **store_manifests(plan, cluster.entries, cluster.nodes, cluster.kitctl_image, settings),
        "server.yaml": workload,
        "service.yaml": _service(plan, cluster),
        "servicemonitor.yaml": _service_monitor(plan, settings),
    }
    if plan.api_key_file:
        documents["launcher.yaml"] = _launcher(plan, cluster)
    files = {name: _text(tree, _head(plan, left_out)) for name, tree in documents.items()}
    files["kustomization.yaml"] = _text(
        {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": sorted(documents),
        },
        _head(plan, left_out),
    )
    return Rendered(files=files, manifests=tuple(documents.values()), left_out=left_out)


def require_layout(plan: Plan, cluster: Cluster) -> None:
    """Return when the plan's ranks fill the nodes and the models can be fetched there.

    Raises KitError ``nodes-against-layout``, ``dflash-against-pipeline`` or ``model-not-on-nodes`` (exit 3), and
    ``flag-owned-by-kitctl`` (exit 2).
    """
    parallel, total = plan.stack.parallel, cluster.nodes * cluster.gpus_per_node
    ranks = parallel.tp * parallel.pp * (parallel.dp if cluster.nodes == 1 else 1)
    needed = 0 if plan.gpus.driver is GpuDriver.NONE else ranks
    if needed != total or (cluster.nodes > 1 and parallel.dp > 1):
        raise _refused(
            "nodes-against-layout",
            f"{cluster.nodes} nodes with {cluster.gpus_per_node} GPUs hold {total} ranks, and the stack makes {needed}",
            f"parallel: tp {parallel.tp}, pp {parallel.pp}, dp {parallel.dp}; over nodes tp x pp must be {total}, dp 1",
            remedy=f"--set parallel.tp={max(total // parallel.pp, 1)}, or other --nodes and --gpus-per-node",
        )
    drafter = plan.stack.drafter
    if drafter is not None and drafter.algorithm is Algorithm.DFLASH and parallel.pp > 1:
        raise _refused(
            "dflash-against-pipeline",
            "DFLASH runs without pipeline parallelism alone",
            f"parallel.pp is {parallel.pp} (SGLang 0.5.16 supports pp_size 1)",
            remedy=f"--set parallel.pp=1 --set parallel.tp={total}",
        )
    for entry in cluster.entries.values():
        if entry.state is LockState.LOCAL:
            raise _refused(
                "model-not-on-nodes",
                f"{entry.repo} lies in a folder of this machine, which the nodes do not have",
                str(entry.path),
                remedy="put it on a hub that the cluster reaches (HF_ENDPOINT) and lock it: kitctl models lock",
            )
    _refuse_owned(plan, cluster)


def _refused(code: str, cause: str, seen: str, *, remedy: str) -> KitError:
    return KitError(code, cause, evidence=(seen,), remedy=remedy, exit_code=Exit.REFUSED)


def _refuse_owned(plan: Plan, cluster: Cluster) -> None:
    given = [flag for flag in plan.argv if flag.partition("=")[0] in _OWN_FLAGS]
    if given and cluster.nodes > 1:
        raise KitError(
            "flag-owned-by-kitctl",
            f"{given[0]} is set by the LeaderWorkerSet and may not be given after --",
            remedy="take it out; --nodes says how many there are",
            exit_code=Exit.USAGE,
        )


def _left_out(plan: Plan, cluster: Cluster, settings: KubernetesSettings) -> dict[str, str]:
    if cluster.nodes == 1:
        return {}
    return {
        name: plan.environment[name]
        for name in (*settings.single_host_environment, *settings.single_host_tuning)
        if name in plan.environment
    }


def _workload(
    plan: Plan, cluster: Cluster, environment: Mapping[str, str], settings: KubernetesSettings
) -> dict[str, Any]:
    if cluster.nodes == 1:
        return _deployment(plan, cluster, environment, settings)
    leader, worker = (
        pod_template(plan, cluster, environment, settings, labels={"role": role})
        for role in ("leader", "worker")
    )
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": _metadata(plan),
        "spec": {
            "replicas": 1,
            "startupPolicy": "LeaderCreated",
            "networkConfig": {"subdomainPolicy": "Shared"},
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": 0},
            },
            "leaderWorkerTemplate": {
                "size": cluster.nodes,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": leader,
                "workerTemplate": worker,
            },
        },
    }


def _deployment(
    plan: Plan, cluster: Cluster, environment: Mapping[str, str], settings: KubernetesSettings
) -> dict[str, Any]:
    budget_s = settings.startup_budget_s(plan.stack.serve.start_period_s)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(plan),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "progressDeadlineSeconds": budget_s * 2,
            "selector": {"matchLabels": own_labels(plan)},
            "template": pod_template(plan, cluster, environment, settings, labels={}),
        },
    }


def _launcher(plan: Plan, cluster: Cluster) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**_metadata(plan), "name": f"{plan.project}-launcher"},
        "data": {LAUNCHER_FILE: cluster.launcher},
    }


def _service(plan: Plan, cluster: Cluster) -> dict[str, Any]:
    """Clients reach rank 0 alone; the other ranks answer /health and nothing else.

    The name of the set itself belongs to the headless Service that LeaderWorkerSet makes for its ranks.
    """
    leader = {LWS_LABEL: plan.project, "role": "leader"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            **_metadata(plan),
            "name": f"{plan.project}-leader" if cluster.nodes > 1 else plan.project,
        },
        "spec": {
            "type": "ClusterIP",
            "selector": leader if cluster.nodes > 1 else own_labels(plan),
            "ports": [{"name": "http", "port": plan.published.container_port, "targetPort": "http"}],
        },
    }


# A Prometheus 2 gets the engine's names as sglang_...: they are put back to what rules and dashboards name (measured).
_RENAMED = {
    "sourceLabels": ["__name__"],
    "regex": "sglang_(.+)",
    "targetLabel": "__name__",
    "replacement": "sglang:$1",
}


def _service_monitor(plan: Plan, settings: KubernetesSettings) -> dict[str, Any]:
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": _metadata(plan),
        "spec": {
            "selector": {"matchLabels": own_labels(plan)},
            "endpoints": [
                {
                    "port": "http",
                    "path": "/metrics",
                    "interval": settings.metrics.interval,
                    "metricRelabelings": [_RENAMED],
                }
            ],
        },
    }


def _metadata(plan: Plan) -> dict[str, Any]:
    return {"name": plan.project, "labels": own_labels(plan)}


def _head(plan: Plan, left_out: Mapping[str, str]) -> str:
    lines = [f"# Rendered by kitctl: {plan.stack.name}, plan {fingerprint(plan)}."]
    lines += [f"# Left out, right on one host alone: {name}={value}" for name, value in left_out.items()]
    return "\n".join(lines) + "\n"


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        """Every value in full: two templates are read side by side."""
        del data
        return True


def _scalar(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _scalar)


def _text(tree: Mapping[str, Any], head: str) -> str:
    return head + yaml.dump(tree, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)
