"""A plan as a Kustomize folder: what stands in it for one node and for two, and what is refused.

Gold files hold whole folders; accept a wanted change with ``pytest tests/render --accept``.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster_case import (
    BOOK,
    GIB,
    SETTINGS,
    SIXTEEN,
    cluster,
    engines,
    of_kind,
    one_node,
    pods,
    rendered,
    trees,
)
from cluster_case import two_nodes as two_nodes_plan
from hubserver import Hub
from model_world import TINY, World, tiny_repo
from planned import NVLINK, PCIE, STACKS, host, planned

from kitctl.errors import Exit, KitError
from kitctl.kit.models_lock import LockState, ModelEntry, read_models_lock
from kitctl.plan.types import GpuDriver, Plan, PlannedModel
from kitctl.render.compose import fingerprint
from kitctl.render.kubernetes import require_layout
from kitctl.render.kubernetes_lint import lint_manifests

GOLD = Path(__file__).parent.parent / "cases" / "render"
FOLDERS: dict[str, tuple[Plan, int]] = {
    "kubernetes.two-nodes": (two_nodes_plan(api_key_file="/key"), 2),
    "kubernetes.one-node": (one_node(), 1),
}
TEXT, WHOLE, OBJECT = str, int, dict
SHAPE: dict[str, Any] = {
    "apiVersion": TEXT,
    "kind": TEXT,
    "metadata": {"name": TEXT, "labels": OBJECT},
    "spec": {
        "replicas": WHOLE,
        "startupPolicy": {"LeaderCreated", "LeaderReady"},
        "networkConfig": {"subdomainPolicy": {"Shared", "UniquePerReplica"}},
        "rolloutStrategy": {
            "type": {"RollingUpdate"},
            "rollingUpdateConfiguration": {"maxUnavailable": WHOLE, "maxSurge": WHOLE},
        },
        "leaderWorkerTemplate": {
            "size": WHOLE,
            "restartPolicy": {"RecreateGroupOnPodRestart", "RestartGroupAfterStart", "None"},
            "leaderTemplate": {"metadata": OBJECT, "spec": OBJECT},
            "workerTemplate": {"metadata": OBJECT, "spec": OBJECT},
        },
    },
}
"""The fields of a LeaderWorkerSet that are rendered, with their types (kubernetes-sigs/lws v0.9.0)."""


def misfits(tree: Any, shape: Any, path: str = "") -> list[str]:
    if isinstance(shape, dict):
        if not isinstance(tree, dict) or tree.keys() != shape.keys():
            return [f"{path}: fields {sorted(tree) if isinstance(tree, dict) else tree!r}"]
        return [line for key in shape for line in misfits(tree[key], shape[key], f"{path}.{key}")]
    if isinstance(shape, set):
        return [] if tree in shape else [f"{path}: {tree!r}"]
    return [] if type(tree) is shape else [f"{path}: {tree!r}"]


@pytest.mark.parametrize("name", FOLDERS)
def test_gold(name: str, accept: bool) -> None:
    plan, nodes = FOLDERS[name]
    gold, actual = GOLD / f"{name}.yaml", GOLD / f"{name}.actual.yaml"
    files = rendered(plan, nodes).files
    text = "".join(f"--- # {file}\n{files[file]}" for file in sorted(files))
    mark = fingerprint(plan)
    text = text.replace(f"'{mark}'", mark).replace(mark, "FINGERPRINT").replace(mark[:8], "PLAN")
    if accept:
        gold.write_text(text)
    if gold.read_text() != text:
        actual.write_text(text)
    else:
        actual.unlink(missing_ok=True)
    assert text == gold.read_text(), f"see {actual.name}; a wanted change: pytest tests/render --accept"


def test_a_leader_worker_set_has_the_fields_and_types_of_its_schema() -> None:
    tree = of_kind(trees(rendered(two_nodes_plan(), 2)), "LeaderWorkerSet")
    assert misfits(tree, SHAPE) == []
    spec = tree["spec"]
    assert (tree["apiVersion"], spec["replicas"]) == ("leaderworkerset.x-k8s.io/v1", 1)
    assert (spec["startupPolicy"], spec["networkConfig"]) == ("LeaderCreated", {"subdomainPolicy": "Shared"})
    rolling = {"maxUnavailable": 1, "maxSurge": 0}
    assert spec["rolloutStrategy"]["rollingUpdateConfiguration"] == rolling
    group = spec["leaderWorkerTemplate"]
    assert (group["size"], group["restartPolicy"]) == (2, "RecreateGroupOnPodRestart")


def test_leader_and_workers_differ_in_their_role_alone() -> None:
    leader, worker = pods(trees(rendered(two_nodes_plan(), 2)))
    assert leader["metadata"]["labels"].pop("role") == "leader"
    assert worker["metadata"]["labels"].pop("role") == "worker"
    assert leader == worker


def test_each_rank_learns_its_place_from_the_injected_variables() -> None:
    plan = two_nodes_plan()
    args = engines(trees(rendered(plan, 2)))[0]["args"]
    assert args[: len(plan.argv)] == list(plan.argv)
    assert args[len(plan.argv) :] == [
        "--nnodes",
        "$(LWS_GROUP_SIZE)",
        "--node-rank",
        "$(LWS_WORKER_INDEX)",
        "--dist-init-addr",
        "$(LWS_LEADER_ADDRESS):20000",
        "--dist-timeout",
        "3600",
    ]


def test_a_timeout_of_the_users_own_stands_alone() -> None:
    plan = two_nodes_plan(engine_flags=("--dist-timeout", "7200"))
    args = engines(trees(rendered(plan, 2)))[0]["args"]
    assert args.count("--dist-timeout") == 1
    assert args[args.index("--dist-timeout") + 1] == "7200"


def test_a_long_load_is_waited_for_by_the_ranks_too() -> None:
    plan = two_nodes_plan(settings=(*SIXTEEN, ("serve.start_period_s", 4000)))
    engine = engines(trees(rendered(plan, 2)))[0]
    assert engine["args"][-1] == "6000"


def test_values_of_a_single_host_are_left_out_and_named() -> None:
    result = rendered(two_nodes_plan(), 2)
    assert result.left_out == {"NCCL_IB_DISABLE": "1", "NCCL_P2P_LEVEL": "SYS", "NCCL_MIN_NCHANNELS": "8"}
    for engine in engines(trees(result)):
        environment = {row["name"]: row["value"] for row in engine["env"]}
        assert environment.keys() & result.left_out.keys() == set()
        assert (environment["NCCL_SOCKET_IFNAME"], environment["GLOO_SOCKET_IFNAME"]) == ("eth0", "eth0")
        assert environment["HF_HUB_OFFLINE"] == "1"
    head = result.files["server.yaml"].splitlines()[:4]
    assert head[1:] == [
        "# Left out, right on one host alone: NCCL_IB_DISABLE=1",
        "# Left out, right on one host alone: NCCL_P2P_LEVEL=SYS",
        "# Left out, right on one host alone: NCCL_MIN_NCHANNELS=8",
    ]


def test_one_node_keeps_them_and_is_a_deployment() -> None:
    result = rendered(planned("ep8", host(PCIE), image="a@sha256:1"), 1)
    manifests = trees(result)
    spec = of_kind(manifests, "Deployment")["spec"]
    assert (result.left_out, spec["strategy"], spec["replicas"]) == ({}, {"type": "Recreate"}, 1)
    assert spec["progressDeadlineSeconds"] == 2 * 1350
    engine = engines(manifests)[0]
    assert {"name": "NCCL_IB_DISABLE", "value": "1"} in engine["env"]
    assert "--nnodes" not in engine["args"]
    assert spec["selector"]["matchLabels"] == of_kind(manifests, "Service")["spec"]["selector"]


@pytest.mark.parametrize("start_period_s", [1, 900, 901, 3600])
def test_the_startup_budget_is_one_and_a_half_times_the_plans(start_period_s: int) -> None:
    plan = one_node(settings=(("serve.start_period_s", start_period_s),))
    engine = engines(trees(rendered(plan, 1)))[0]
    probe = engine["startupProbe"]
    budget_s = probe["periodSeconds"] * probe["failureThreshold"]
    assert math.ceil(1.5 * start_period_s) <= budget_s < 1.5 * start_period_s + 11
    assert "livenessProbe" not in engine
    assert {engine[name]["timeoutSeconds"] >= 5 for name in ("startupProbe", "readinessProbe")} == {True}


def test_shared_memory_counts_for_the_limit() -> None:
    manifests = trees(rendered(two_nodes_plan(), 2, ram_bytes=10 * GIB))
    for pod, engine in zip(pods(manifests), engines(manifests), strict=True):
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        assert volumes["shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "32768Mi"}
        assert engine["resources"]["limits"] == {"memory": f"{42 * 1024}Mi", "nvidia.com/gpu": "8"}


def test_the_pod_is_locked_down_and_the_models_are_read_only() -> None:
    (pod,) = pods(trees(rendered(one_node(), 1)))
    spec, engine = pod["spec"], pod["spec"]["containers"][0]
    assert (spec["securityContext"]["runAsUser"], spec["securityContext"]["runAsNonRoot"]) == (10001, True)
    assert engine["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": ["IPC_LOCK"]},
        "readOnlyRootFilesystem": True,
    }
    writable = {m["mountPath"] for m in engine["volumeMounts"] if not m.get("readOnly")}
    assert writable == {"/cache", "/tmp", "/dev/shm"}
    assert (spec["automountServiceAccountToken"], spec["enableServiceLinks"]) == (False, False)
    mounts = {mount["mountPath"]: mount for mount in engine["volumeMounts"]}
    model = mounts["/models/moonshotai--Kimi-K2.6"]
    assert (model["readOnly"], model["subPath"]) == (True, "models--moonshotai--Kimi-K2.6")
    assert mounts["/cache"] == {"name": "cache", "mountPath": "/cache"}


def test_an_api_key_is_a_secret_by_reference_and_its_file_is_not_read() -> None:
    plan = two_nodes_plan(api_key_file="/no/such/file")
    result = rendered(plan, 2, launcher="import os\n")
    manifests = trees(result)
    launcher = [tree for tree in manifests if tree["metadata"]["name"].endswith("-launcher")]
    assert [tree["data"] for tree in launcher] == [{"serve_with_key.py": "import os\n"}]
    for pod, engine in zip(pods(manifests), engines(manifests), strict=True):
        assert engine["command"] == ["python3", "/etc/kitctl/serve_with_key.py"]
        assert {"name": "KITCTL_API_KEY_FILE", "value": "/run/secrets/kitctl/api-key"} in engine["env"]
        secrets = [volume["secret"] for volume in pod["spec"]["volumes"] if "secret" in volume]
        assert secrets == [{"secretName": "kitctl-ep8-dflash-api-key", "defaultMode": 0o440}]
    assert "/no/such/file" not in json.dumps(result.manifests)


def test_text_with_dollar_signs_arrives_as_it_was() -> None:
    plan = one_node(engine_flags=("--chat-template", "$(HOME) $5 $$x"), settings=(("environment.A", "$(B)"),))
    engine = engines(trees(rendered(plan, 1)))[0]
    assert engine["args"][-1] == "$$(HOME) $$5 $$$$x"
    assert {"name": "A", "value": "$$(B)"} in engine["env"]


def test_the_folder_is_whole_and_reads_back_as_it_was_made() -> None:
    result = rendered(two_nodes_plan(api_key_file="/key"), 2)
    kustomization = yaml.safe_load(result.files["kustomization.yaml"])
    assert {*kustomization["resources"], "kustomization.yaml"} == result.files.keys()
    read = [yaml.safe_load(text) for name, text in result.files.items() if name != "kustomization.yaml"]
    assert read == list(result.manifests)
    assert result == rendered(two_nodes_plan(api_key_file="/key"), 2)


@pytest.mark.parametrize("kind", [PCIE, NVLINK])
@pytest.mark.parametrize("stack", STACKS)
def test_every_stack_on_one_node_is_clean(stack: str, kind: str) -> None:
    plan = planned(stack, host(kind), image="registry.example/a@sha256:1")
    gpus = 0 if plan.gpus.driver is GpuDriver.NONE else plan.stack.gpu_count
    manifests = rendered(plan, 1, gpus_per_node=gpus).manifests
    assert lint_manifests(manifests, book=BOOK, settings=SETTINGS) == ()


def test_a_claim_has_room_for_the_models_and_for_all_nodes() -> None:
    spec = of_kind(trees(rendered(two_nodes_plan(), 2)), "PersistentVolumeClaim")["spec"]
    assert spec == {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1100Gi"}}}
    alone = of_kind(trees(rendered(one_node(), 1)), "PersistentVolumeClaim")["spec"]
    assert alone == {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "550Gi"}}}


def test_a_changed_plan_is_a_new_job_because_a_jobs_template_cannot_change() -> None:
    names = {
        of_kind(trees(rendered(plan, 1)), "Job")["metadata"]["name"]
        for plan in (one_node(), one_node(settings=(("engine.context_length", 4096),)))
    }
    assert len(names) == 2


LOCAL = {"target": ModelEntry(repo="moonshotai/Kimi-K2.6", state=LockState.LOCAL, path="/mine")}
REFUSALS: dict[str, tuple[Plan, int, dict[str, Any], str, str]] = {
    "too few ranks": (
        two_nodes_plan(settings=()),
        2,
        {},
        "nodes-against-layout",
        "2 nodes with 8 GPUs hold 16 ranks, and the stack makes 8",
    ),
    "too many ranks": (
        two_nodes_plan(),
        2,
        {"gpus_per_node": 4},
        "nodes-against-layout",
        "2 nodes with 4 GPUs hold 8 ranks, and the stack makes 16",
    ),
    "replicas": (
        two_nodes_plan(settings=(("parallel.dp", 2),)),
        2,
        {},
        "nodes-against-layout",
        "2 nodes with 8 GPUs hold 16 ranks, and the stack makes 8",
    ),
    "the CPU engine": (
        planned("cpu-demo"),
        2,
        {},
        "nodes-against-layout",
        "2 nodes with 8 GPUs hold 16 ranks, and the stack makes 0",
    ),
    "a drafter with a pipeline": (
        two_nodes_plan(settings=(("parallel.pp", 2),)),
        2,
        {},
        "dflash-against-pipeline",
        "DFLASH runs without pipeline parallelism alone",
    ),
    "a folder of this machine": (
        one_node(),
        1,
        {"entries": LOCAL},
        "model-not-on-nodes",
        "moonshotai/Kimi-K2.6 lies in a folder of this machine, which the nodes do not have",
    ),
    "a rank of the user's own": (
        two_nodes_plan(engine_flags=("--node-rank=1",)),
        2,
        {},
        "flag-owned-by-kitctl",
        "--node-rank=1 is set by the LeaderWorkerSet and may not be given after --",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_could_not_run_is_refused(name: str) -> None:
    plan, nodes, changes, code, cause = REFUSALS[name]
    with pytest.raises(KitError) as caught:
        require_layout(plan, cluster(plan, nodes, **changes))
    assert (caught.value.code, caught.value.cause) == (code, cause)
    owned = code == "flag-owned-by-kitctl"
    assert caught.value.exit_code == (Exit.USAGE if owned else Exit.REFUSED)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Hub({TINY: tiny_repo(shard_bytes=1000)}) as hub:
        made = World(tmp_path, hub)
        made.write_lock()
        yield made


def store_pods(world: World) -> tuple[list[str], list[str], list[str], Path]:
    """The commands of fetch, prove and wait, and the kit's folder as the ConfigMap fills it."""
    lock = read_models_lock((world.root / "kit" / "models.lock").read_text())
    model = PlannedModel(model=TINY, role="target", folder="/here/models--org--tiny", inner="snapshots/x")
    plan = replace(one_node(), models=(model,))
    manifests = trees(rendered(plan, 1, entries={"target": lock.models[0]}))
    job = of_kind(manifests, "Job")["spec"]["template"]["spec"]
    (config,) = [tree for tree in manifests if tree["kind"] == "ConfigMap"]
    kit = world.root / "configmap"
    kit.mkdir()
    for name, text in config["data"].items():
        (kit / name).write_text(text)
    waiting = pods(manifests)[0]["spec"]["initContainers"][0]
    return job["initContainers"][0]["command"], job["containers"][0]["command"], waiting["command"], kit


def test_the_job_fills_and_proves_the_store_and_pods_wait_for_it(world: World) -> None:
    """The commands as they stand in the manifests, against a real hub."""
    fetch, prove, wait, kit = store_pods(world)
    scratch = world.root / "scratch"
    scratch.mkdir()
    env = world.env | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(scratch),
        "KITCTL_KIT": str(kit),
        "KITCTL_STORE": str(world.store),
    }

    def run(command: list[str], limit_s: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=limit_s, check=False)

    with pytest.raises(subprocess.TimeoutExpired):
        run(wait, 5)
    for command in (fetch, prove, wait):
        done = run(command, 120)
        assert done.returncode == 0, done.stderr
    assert world.holds_all()
    shard = next(path for path in (world.repo_folder / "blobs").iterdir() if path.stat().st_size > 1000)
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    assert run(prove, 120).returncode == 5
