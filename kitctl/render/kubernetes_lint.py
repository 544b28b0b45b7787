"""Which manifests would Kubernetes accept and then never schedule, deadlock on, or serve wrongly?

Every rule has a code, whose words stand in ``kubernetes_rules.yaml``. Schemas find misspelt fields; these find the
rest. What a manifest does not say is not judged: the length of a start is known by the annotation that kitctl writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kitctl.finding import Finding
from kitctl.plan.finding_book import FindingBook
from kitctl.render.kubernetes_group import group_hits
from kitctl.render.kubernetes_hit import Hit
from kitctl.render.kubernetes_serving import pod_hits
from kitctl.render.kubernetes_settings import KubernetesSettings
from kitctl.render.kubernetes_view import PodView, Workload, at, text_map, workloads_of

_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_NAMED = ("LeaderWorkerSet", "Service")
_SHARED_MODES = {"ReadWriteMany", "ReadOnlyMany"}
_GROUP, _INDEX = "leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/worker-index"


def lint_manifests(
    manifests: Sequence[Mapping[str, Any]], *, book: FindingBook, settings: KubernetesSettings
) -> tuple[Finding, ...]:
    """All findings, each rule asked of each object. A tree of any shape is judged; none raises."""
    loads = workloads_of(manifests)
    hits = [hit for load in loads for hit in (*group_hits(load, settings), *pod_hits(load, settings))]
    hits += [hit for tree in manifests for hit in _object_hits(tree, loads)]
    hits += _claim_hits(manifests, loads)
    hits += _image_hits(loads)
    return tuple(book.tell(hit.code, *hit.seen, where=hit.where, severity=None, **hit.values) for hit in hits)


def _object_hits(tree: Mapping[str, Any], loads: Sequence[Workload]) -> Iterator[Hit]:
    kind, name = str(tree.get("kind")), str(at(tree, "metadata", "name"))
    if kind in _NAMED and not _DNS_1035.fullmatch(name):
        yield Hit("k8s-name", f"{kind} {name}", (), {"kind": kind, "name": name})
    selector = text_map(at(tree, "spec", "selector"))
    groups = [load.name for load in loads if load.kind == "LeaderWorkerSet"]
    if kind == "Service" and name in groups and at(tree, "spec", "clusterIP") != "None":
        yield Hit("k8s-service-name-taken", f"Service {name}", (), {"service": name})
    if kind != "Service" or not selector or not loads:
        return
    pods = [(pod.role, _labels(load, pod)) for load in loads for pod in load.pods]
    chosen = [role for role, labels in pods if selector.items() <= labels.items()]
    if not chosen:
        yield Hit("k8s-service-selects-nothing", f"Service {name}", (str(selector),), {"service": name})
    if "leader" in chosen and "worker" in chosen:
        yield Hit("k8s-service-reaches-workers", f"Service {name}", (str(selector),), {"service": name})


def _labels(load: Workload, pod: PodView) -> dict[str, str]:
    """The template's labels, and those that LeaderWorkerSet gives its pods."""
    if load.kind != "LeaderWorkerSet":
        return dict(pod.labels)
    return {**pod.labels, _GROUP: load.name, **({_INDEX: "0"} if pod.role == "leader" else {})}


def _claim_hits(manifests: Sequence[Mapping[str, Any]], loads: Sequence[Workload]) -> Iterator[Hit]:
    """Claims that one node alone could mount, used by a group on several."""
    claims = {
        str(at(tree, "metadata", "name")): at(tree, "spec", "accessModes")
        for tree in manifests
        if tree.get("kind") == "PersistentVolumeClaim"
    }
    for load in loads:
        used = {
            m.claim
            for _, pod, _ in load.engines()
            for c in pod.containers
            for m in c.mounts
            if m.claim in claims
        }
        for claim in sorted(str(name) for name in used):
            modes = [str(mode) for mode in claims[claim] or []] if isinstance(claims[claim], list) else []
            if load.size > 1 and not _SHARED_MODES & set(modes):
                values = {"claim": claim, "modes": ", ".join(modes), "size": load.size}
                yield Hit("k8s-store-for-one-node", load.where, (), values)


def _image_hits(loads: Sequence[Workload]) -> Iterator[Hit]:
    """Images named by tag, each once, with the containers that use it."""
    users: dict[str, list[str]] = {}
    for load in loads:
        for pod in load.pods:
            for container in pod.containers:
                place = f"{load.where}: {f'{pod.role} ' if pod.role else ''}{container.name}"
                users.setdefault(container.image, []).append(place)
    for image, places in users.items():
        if "@sha256:" not in image:
            yield Hit("k8s-image-by-tag", places[0], tuple(places), {"image": image})
