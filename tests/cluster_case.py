"""Rendered clusters for tests: a server over two nodes and one on one node, without a lock or a host."""

from __future__ import annotations

import copy
from typing import Any

from planned import KIT, NVLINK, PCIE, host, planned

from kitctl.edge.kubernetes_data import load_kubernetes_data
from kitctl.kit.models_lock import LockState, ModelEntry
from kitctl.plan.types import Plan
from kitctl.render.kubernetes import Rendered, render_kubernetes
from kitctl.render.kubernetes_pod import Cluster

BOOK, SETTINGS = load_kubernetes_data()
DIGEST = "registry.example/sglang@sha256:" + "a" * 64
KITCTL = "registry.example/kitctl@sha256:" + "b" * 64
GIB = 1024**3
SIXTEEN = (("parallel.tp", 16),)


def two_nodes(kind: str = PCIE, **request: Any) -> Plan:
    return planned("ep8-dflash", host(kind), **{"settings": SIXTEEN, "image": DIGEST, **request})


def one_node(**request: Any) -> Plan:
    return planned("ep8", host(NVLINK), **{"image": DIGEST, **request})


def cluster(plan: Plan, nodes: int, **changes: Any) -> Cluster:
    entries = {
        model.role: ModelEntry(repo=model.model, state=LockState.RECONSTRUCTED, stated_size_bytes=500 * GIB)
        for model in plan.models
    }
    facts = {
        "gpus_per_node": 8,
        "entries": entries,
        "ram_bytes": 64 * GIB,
        "launcher": "print('hello')\n",
        "experts": 384,
    }
    return Cluster(nodes=nodes, **{**facts, "kitctl_image": KITCTL, **changes})


def rendered(plan: Plan, nodes: int, **changes: Any) -> Rendered:
    return render_kubernetes(
        plan, cluster(plan, nodes, **changes), base_environment=KIT.base_environment, settings=SETTINGS
    )


def trees(result: Rendered) -> list[dict[str, Any]]:
    """The manifests, free to be damaged."""
    return [copy.deepcopy(dict(tree)) for tree in result.manifests]


def of_kind(manifests: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [tree for tree in manifests if tree["kind"] == kind]
    return found


def pods(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The server's pod templates, leader first."""
    for tree in manifests:
        if tree["kind"] == "LeaderWorkerSet":
            group = tree["spec"]["leaderWorkerTemplate"]
            return [group["leaderTemplate"], group["workerTemplate"]]
    return [of_kind(manifests, "Deployment")["spec"]["template"]]


def engines(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [pod["spec"]["containers"][0] for pod in pods(manifests)]
