"""``kitctl render --to kubernetes --apply``: a real kubectl sends the folder to the cluster of its current context."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver import Cluster
from cluster_case import DIGEST, KITCTL
from kitctl_process import KitUser

WORDS = ("render", "ep8-dflash", "--set", "parallel.tp=16", "--to", "kubernetes", "--nodes", "2", "-o", "m", "--image",
         DIGEST, "--kitctl-image", KITCTL, "--skip", "model-unlocked", "--apply")  # fmt: skip
KINDS = {"ConfigMap", "Job", "LeaderWorkerSet", "PersistentVolumeClaim", "Service", "ServiceMonitor"}
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on this machine")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def apply(user: KitUser, cluster: Cluster, *, exit_code: int = 0) -> Any:
    """The command with the cluster as kubectl's current context; its JSON."""
    user.extra["KUBECONFIG"] = str(cluster.kubeconfig(user.home / "kubeconfig"))
    return user.json(*WORDS, exit_code=exit_code)


@needs_kubectl
def test_the_folder_goes_to_the_current_context(kit_user: KitUser, cluster: Cluster) -> None:
    body = apply(kit_user, cluster)
    assert (body["schema"], body["context"], body["server"]) == (
        "kitctl.render/1",
        "the-cluster",
        cluster.url,
    )
    kinds = {name.partition("/")[0] for name in cluster.objects}
    assert kinds == KINDS
    group = next(one for name, one in cluster.objects.items() if name.startswith("LeaderWorkerSet/"))
    assert (group["metadata"]["namespace"], group["spec"]["leaderWorkerTemplate"]["size"]) == ("serving", 2)
    assert len(body["applied"]) == len(cluster.objects)
    assert all(line.endswith("created") for line in body["applied"])
    again = apply(kit_user, cluster)
    assert all(line.endswith(("unchanged", "configured")) for line in again["applied"])


@needs_kubectl
def test_the_context_is_named_to_a_person(kit_user: KitUser, cluster: Cluster) -> None:
    kit_user.extra["KUBECONFIG"] = str(cluster.kubeconfig(kit_user.home / "kubeconfig"))
    done = kit_user.run(*WORDS)
    assert done.returncode == 0, done.stderr
    assert f"applied to context the-cluster ({cluster.url}):" in done.stdout.splitlines()


@needs_kubectl
def test_a_cluster_that_lacks_the_kinds_is_told_as_that(kit_user: KitUser) -> None:
    for group, code in (
        ("leaderworkerset.x-k8s.io/v1", "lws-missing"),
        ("monitoring.coreos.com/v1", "servicemonitor-missing"),
    ):
        with Cluster(without=(group,)) as cluster:
            assert apply(kit_user, cluster, exit_code=3)["code"] == code
            assert cluster.objects == {}


@needs_kubectl
def test_a_refusal_is_the_clusters_own_words(kit_user: KitUser) -> None:
    with Cluster(refuse="LeaderWorkerSet") as cluster:
        body = apply(kit_user, cluster, exit_code=6)
    assert cluster.objects == {}
    assert body["code"] == "apply-failed"
    assert any("exceeded quota" in line for line in body["evidence"])


@needs_kubectl
def test_a_cluster_that_does_not_answer(kit_user: KitUser) -> None:
    with Cluster() as cluster:
        config = cluster.kubeconfig(kit_user.home / "kubeconfig")
    kit_user.extra["KUBECONFIG"] = str(config)
    body = kit_user.json(*WORDS, exit_code=10)
    assert (body["code"], cluster.url in body["cause"]) == ("cluster-unreachable", True)


@needs_kubectl
def test_no_context_is_no_cluster(kit_user: KitUser) -> None:
    empty = kit_user.home / "kubeconfig"
    empty.write_text(json.dumps({"apiVersion": "v1", "kind": "Config"}))
    kit_user.extra["KUBECONFIG"] = str(empty)
    body = kit_user.json(*WORDS, exit_code=10)
    assert body["code"] == "no-cluster-context"
    assert not (kit_user.home / "m").exists()


@needs_kubectl
def test_what_blocks_is_not_applied(kit_user: KitUser, cluster: Cluster) -> None:
    kit_user.extra["KUBECONFIG"] = str(cluster.kubeconfig(kit_user.home / "kubeconfig"))
    linted = kit_user.json(*WORDS, "--name", "a" * 48, exit_code=3)
    assert (linted["applied"], linted["files"]) == ([], [])
    unlocked = kit_user.json(*WORDS[:-3], "--apply", exit_code=3)
    assert unlocked["applied"] == []
    assert cluster.objects == {}


def test_without_kubectl_nothing_is_written(kit_user: KitUser, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("docker", "git"):
        (programs / name).symlink_to(shutil.which(name) or "/usr/bin/false")
    kit_user.extra["PATH"] = str(programs)
    body = kit_user.json(*WORDS, exit_code=10)
    assert body["code"] == "kubectl-missing"
    assert not (kit_user.home / "m").exists()


def test_apply_is_for_clusters(kit_user: KitUser) -> None:
    body = kit_user.json("render", "cpu-demo", "-o", "m", "--apply", exit_code=2)
    assert body["code"] == "option-of-kubernetes"
