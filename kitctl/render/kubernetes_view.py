"""What do Kubernetes manifests say of a model server? A reader that takes any tree and keeps what the linter asks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kitctl.render.difference import argv_flags
from kitctl.render.kubernetes_pod import EXPERTS, GPU_RESOURCE, START_PERIOD

WORKLOADS = ("LeaderWorkerSet", "Deployment", "StatefulSet", "Job", "Pod")
_TOPOLOGY = "leaderworkerset.sigs.k8s.io/exclusive-topology"
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(Ki|Mi|Gi|Ti|k|M|G|T)?")
_UNITS = {None: 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12} | {
    f"{letter}i": 1024**power for power, letter in enumerate("KMGT", start=1)
}


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One probe with Kubernetes' own defaults for what is left out."""

    name: str
    timeout_s: int
    budget_s: int


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A path of a container: the volume's claim if it is one, and whether the container may write."""

    path: str
    claim: str | None
    read_only: bool


@dataclass(frozen=True, kw_only=True)
class Container:
    """One container. ``env`` holds what stands literally in the manifest, whatever its type."""

    name: str
    image: str
    words: tuple[Any, ...]
    env: Mapping[str, Any]
    probes: Mapping[str, Probe]
    gpus: int
    memory_bytes: int | None
    mounts: tuple[Mount, ...]
    shm_bytes: int | None
    has_shm: bool
    as_root: str | None

    @property
    def flags(self) -> Mapping[str, str]:
        """Flag to value, ``set`` for a bare switch."""
        pairs = [part for word in self.words for part in _split(str(word))]
        return argv_flags(pairs)

    @property
    def is_engine(self) -> bool:
        """Whether it launches SGLang."""
        return "--model-path" in self.flags or any("sglang" in str(word) for word in self.words)


@dataclass(frozen=True, kw_only=True)
class PodView:
    """One pod template; ``role`` is leader, worker or empty. ``experts``: routed experts of the model it serves."""

    role: str
    labels: Mapping[str, str]
    containers: tuple[Container, ...]
    host_network: bool
    dns_policy: str | None
    start_period_s: int | None
    experts: int | None

    @property
    def engine(self) -> Container | None:
        """The container that serves the model."""
        return next((one for one in self.containers if one.is_engine), None)


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One object that makes pods; ``size`` pods form one server."""

    kind: str
    name: str
    size: int
    pods: tuple[PodView, ...]
    startup_policy: str | None
    restart_policy: str | None
    max_surge: Any
    max_unavailable: Any
    strategy: str | None
    pod_management: str | None
    topology: str | None

    @property
    def where(self) -> str:
        """The object's name in a finding."""
        return f"{self.kind} {self.name}"

    def engines(self) -> Iterator[tuple[str, PodView, Container]]:
        """Every pod that serves, with its place."""
        for pod in self.pods:
            if pod.engine is not None:
                yield f"{self.where}: {pod.role}".removesuffix(": "), pod, pod.engine


def workloads_of(manifests: Sequence[Mapping[str, Any]]) -> tuple[Workload, ...]:
    """The workloads among the manifests, in order."""
    return tuple(_workload(tree) for tree in manifests if tree.get("kind") in WORKLOADS)


def at(tree: Any, *path: str) -> Any:
    """The value at ``path``; ``None`` where there is none."""
    for name in path:
        tree = tree.get(name) if isinstance(tree, Mapping) else None
    return tree


def rows(value: Any) -> list[Mapping[str, Any]]:
    """The mappings of a list; empty for anything else."""
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []


def text_map(value: Any) -> dict[str, str]:
    """Names to values as text; empty for anything else."""
    return {str(key): str(one) for key, one in value.items()} if isinstance(value, Mapping) else {}


def quantity_bytes(value: Any) -> int | None:
    """Bytes of a Kubernetes quantity; ``None`` when it is none."""
    found = _QUANTITY.fullmatch(str(value)) if value is not None else None
    return round(float(found[1]) * _UNITS[found[2]]) if found else None


def whole(value: Any, default: int) -> int:
    """``value`` as a whole number, or ``default``."""
    return int(value) if re.fullmatch(r"[0-9]{1,12}", str(value)) else default


def _workload(tree: Mapping[str, Any]) -> Workload:
    kind = str(tree.get("kind"))
    group = at(tree, "spec", "leaderWorkerTemplate")
    rolling = at(tree, "spec", "rolloutStrategy", "rollingUpdateConfiguration")
    rolling = rolling if kind == "LeaderWorkerSet" else at(tree, "spec", "strategy", "rollingUpdate")
    size = at(group, "size") if kind == "LeaderWorkerSet" else 1
    size = at(tree, "spec", "replicas") if kind == "StatefulSet" else size
    return Workload(
        kind=kind,
        name=str(at(tree, "metadata", "name")),
        size=whole(size, 1),
        pods=tuple(_pods(tree, kind, group)),
        startup_policy=at(tree, "spec", "startupPolicy"),
        restart_policy=at(group, "restartPolicy"),
        max_surge=at(rolling, "maxSurge"),
        max_unavailable=at(rolling, "maxUnavailable"),
        strategy=at(tree, "spec", "strategy", "type"),
        pod_management=at(tree, "spec", "podManagementPolicy"),
        topology=at(tree, "metadata", "annotations", _TOPOLOGY),
    )


def _pods(tree: Mapping[str, Any], kind: str, group: Any) -> Iterator[PodView]:
    """A LeaderWorkerSet without a leader template makes its leader from the workers'."""
    if kind == "LeaderWorkerSet":
        worker = at(group, "workerTemplate")
        yield _pod(at(group, "leaderTemplate") or worker, "leader")
        yield _pod(worker, "worker")
    else:
        yield _pod(tree if kind == "Pod" else at(tree, "spec", "template"), "")


def _pod(template: Any, role: str) -> PodView:
    spec = at(template, "spec")
    period = at(template, "metadata", "annotations", START_PERIOD)
    return PodView(
        role=role,
        labels=text_map(at(template, "metadata", "labels")),
        containers=tuple(
            _container(row, spec)
            for row in [*rows(at(spec, "initContainers")), *rows(at(spec, "containers"))]
        ),
        host_network=at(spec, "hostNetwork") is True,
        dns_policy=at(spec, "dnsPolicy"),
        start_period_s=whole(period, 0) or None,
        experts=whole(at(template, "metadata", "annotations", EXPERTS), 0) or None,
    )


def _container(row: Mapping[str, Any], spec: Any) -> Container:
    volumes = {str(one.get("name")): one for one in rows(at(spec, "volumes"))}
    mounts = rows(row.get("volumeMounts"))
    shm = next((volumes.get(str(m.get("name"))) for m in mounts if m.get("mountPath") == "/dev/shm"), None)
    limits = at(row, "resources", "limits")
    return Container(
        name=str(row.get("name")),
        image=str(row.get("image")),
        words=tuple(word for key in ("command", "args") for word in _list(row.get(key))),
        env={str(one.get("name")): one["value"] for one in rows(row.get("env")) if "value" in one},
        probes={name: _probe(name, row[name]) for name in row if str(name).endswith("Probe")},
        gpus=whole(at(limits, GPU_RESOURCE), 0),
        memory_bytes=quantity_bytes(at(limits, "memory")),
        mounts=tuple(_mount(one, volumes) for one in mounts),
        shm_bytes=quantity_bytes(at(shm, "emptyDir", "sizeLimit")),
        has_shm=at(shm, "emptyDir", "medium") == "Memory",
        as_root=_as_root(row, spec),
    )


def _mount(row: Mapping[str, Any], volumes: Mapping[str, Mapping[str, Any]]) -> Mount:
    claim = at(volumes.get(str(row.get("name"))), "persistentVolumeClaim")
    name = at(claim, "claimName")
    return Mount(
        path=str(row.get("mountPath")),
        claim=None if name is None else str(name),
        read_only=row.get("readOnly") is True or at(claim, "readOnly") is True,
    )


def _probe(name: str, tree: Any) -> Probe:
    period, failures = whole(at(tree, "periodSeconds"), 10), whole(at(tree, "failureThreshold"), 3)
    delay = whole(at(tree, "initialDelaySeconds"), 0)
    return Probe(
        name=name, timeout_s=whole(at(tree, "timeoutSeconds"), 1), budget_s=delay + period * failures
    )


def _as_root(row: Mapping[str, Any], spec: Any) -> str | None:
    """Which of the limits on its rights a container lacks."""
    own, pod = at(row, "securityContext"), at(spec, "securityContext")
    if at(own, "privileged") is True:
        return "is privileged"
    non_root = at(own, "runAsNonRoot")
    if (at(pod, "runAsNonRoot") if non_root is None else non_root) is not True:
        return "may run as root"
    if at(own, "allowPrivilegeEscalation") is not False:
        return "may gain rights"
    dropped = at(own, "capabilities", "drop")
    return None if "ALL" in _list(dropped) else "keeps capabilities"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _split(word: str) -> list[str]:
    """``--flag=value`` as two words."""
    name, equals, value = word.partition("=")
    return [name, value] if word.startswith("--") and equals else [word]
