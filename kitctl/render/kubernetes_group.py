"""Does a group of pods form one server: ranks, rendezvous, policies, placement, rollout?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kitctl.render.kubernetes_hit import Hit
from kitctl.render.kubernetes_settings import KubernetesSettings
from kitctl.render.kubernetes_view import Container, Workload, whole

_RANK_FLAGS = ("--nnodes", "--node-rank", "--dist-init-addr")
_OWN_TO_A_ROLE = ("--host", "--port")
_HOSTNAME = "kubernetes.io/hostname"


def group_hits(load: Workload, settings: KubernetesSettings) -> Iterator[Hit]:
    """All rules on workloads that serve a model."""
    engines = [engine for _, _, engine in load.engines()]
    if not engines:
        return
    yield from _layout(load, engines[0])
    yield from _experts(load)
    yield from _rollout(load, engines[0])
    if load.kind == "StatefulSet" and load.size > 1 and load.pod_management != "Parallel":
        yield Hit("k8s-ordered-ranks-deadlock", load.where, (f"podManagementPolicy: {load.pod_management}",))
    if load.kind == "LeaderWorkerSet":
        yield from _policies(load)
        yield from _ranks(load, engines)
    if load.size > 1:
        yield from _between_nodes(load, settings)


def _layout(load: Workload, engine: Container) -> Iterator[Hit]:
    flags = engine.flags
    tp, pp, ep, dp = (
        whole(flags.get(f"--{name}-size", flags.get(f"--{name}")), 1) for name in ("tp", "pp", "ep", "dp")
    )
    ranks = tp * pp * (dp if load.size == 1 and "--enable-dp-attention" not in flags else 1)
    if engine.gpus and ranks != engine.gpus * load.size:
        numbers = {"ranks": ranks, "size": load.size, "gpus": engine.gpus, "total": engine.gpus * load.size}
        yield Hit("k8s-ranks-against-gpus", load.where, (f"tp {tp}, pp {pp}",), numbers)
    if tp % ep:
        yield Hit("k8s-ep-against-tp", load.where, (), {"ep": ep, "tp": tp})
    if flags.get("--speculative-algorithm") == "DFLASH":
        if pp > 1:
            yield Hit("k8s-dflash-layout", load.where, (f"--pp-size {pp}",), {"what": "pipeline parallelism"})
        if "--enable-dp-attention" in flags:
            yield Hit("k8s-dflash-layout", load.where, ("--enable-dp-attention",), {"what": "DP attention"})


def _experts(load: Workload) -> Iterator[Hit]:
    """Whole experts alone can be spread: known where kitctl wrote how many the model has."""
    _, pod, engine = next(load.engines())
    ep = whole(engine.flags.get("--ep-size", engine.flags.get("--ep")), 1)
    if ep > 1 and pod.experts and pod.experts % ep:
        yield Hit("k8s-ep-against-experts", load.where, (), {"ep": ep, "experts": pod.experts})


def _policies(load: Workload) -> Iterator[Hit]:
    if load.startup_policy not in (None, "LeaderCreated"):
        yield Hit("k8s-leader-ready-deadlock", load.where, (), {"policy": load.startup_policy})
    if load.restart_policy not in (None, "RecreateGroupOnPodRestart"):
        yield Hit("k8s-group-not-recreated", load.where, (), {"policy": load.restart_policy})
    if load.topology == _HOSTNAME and load.size > 1:
        yield Hit("k8s-topology-never-fits", load.where, (), {"topology": load.topology, "size": load.size})


def _rollout(load: Workload, engine: Container) -> Iterator[Hit]:
    surge, unavailable = str(load.max_surge), str(load.max_unavailable)
    nothing = ("0", "0%")
    if load.kind == "LeaderWorkerSet":
        if surge in nothing and unavailable in nothing:
            yield Hit("k8s-rollout-both-zero", load.where)
        surges = load.max_surge is not None and surge not in nothing
    else:
        surges = load.kind == "Deployment" and load.strategy != "Recreate" and surge not in nothing
    if surges and engine.gpus:
        yield Hit(
            "k8s-rollout-needs-spare-gpus",
            load.where,
            (f"maxSurge {surge}",),
            {"gpus": engine.gpus * load.size},
        )


def _ranks(load: Workload, engines: list[Container]) -> Iterator[Hit]:
    first, last = engines[0], engines[-1]
    if first.image != last.image:
        yield Hit("k8s-ranks-differ", load.where, (first.image, last.image), {"what": "the image"})
    ours, theirs = _shared(first), _shared(last)
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    if names:
        seen = tuple(f"{name}: {ours.get(name)} and {theirs.get(name)}" for name in names)
        yield Hit("k8s-ranks-differ", load.where, seen, {"what": ", ".join(names)})


def _shared(engine: Container) -> dict[str, str]:
    return {name: value for name, value in engine.flags.items() if name not in _OWN_TO_A_ROLE}


def _between_nodes(load: Workload, settings: KubernetesSettings) -> Iterator[Hit]:
    for where, pod, engine in load.engines():
        flags = engine.flags
        missing = [name for name in _RANK_FLAGS if name not in flags]
        if missing:
            yield Hit("k8s-not-distributed", where, (), {"size": load.size, "missing": ", ".join(missing)})
        nodes = flags.get("--nnodes", "")
        if nodes.isdigit() and int(nodes) != load.size:
            yield Hit("k8s-nodes-against-size", where, (), {"nodes": nodes, "size": load.size})
        meeting = re.search(r":([0-9]+)$", flags.get("--dist-init-addr", ""))
        if meeting and meeting[1] == flags.get("--port", "30000"):
            yield Hit("k8s-dist-port-serves", where, (meeting[0],), {"port": meeting[1]})
        yield from _network(where, engine, settings)
        if pod.host_network and pod.dns_policy != "ClusterFirstWithHostNet":
            yield Hit("k8s-host-network-dns", where, (), {"policy": pod.dns_policy or "ClusterFirst"})


def _network(where: str, engine: Container, settings: KubernetesSettings) -> Iterator[Hit]:
    for name in settings.single_host_environment:
        value = str(engine.env.get(name, "0"))
        if value != "0":
            yield Hit("k8s-single-host-nccl", where, (), {"name": name, "value": value})
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        if engine.gpus and not engine.env.get(name):
            yield Hit("k8s-no-interface", where, (), {"name": name})
