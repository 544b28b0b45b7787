"""Each rule is silent on what kitctl renders and speaks for its own planted fault."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cluster_case import BOOK, SETTINGS, engines, of_kind, one_node, pods, rendered, trees, two_nodes
from hypothesis import given, settings
from hypothesis import strategies as st

from kitctl.finding import Finding
from kitctl.plan.finding_book import findings_table
from kitctl.render.kubernetes_lint import lint_manifests

PAGE = Path(__file__).parent.parent.parent / "docs" / "kubernetes.md"
Trees = list[dict[str, Any]]


def lint(manifests: Trees) -> tuple[Finding, ...]:
    return lint_manifests(manifests, book=BOOK, settings=SETTINGS)


def put(manifests: Trees, flag: str, value: str) -> None:
    """Set a flag in both templates."""
    for engine in engines(manifests):
        words = engine["args"]
        if flag in words:
            words[words.index(flag) + 1] = value
        else:
            words += [flag, value]


def drop(manifests: Trees, flag: str) -> None:
    for engine in engines(manifests):
        place = engine["args"].index(flag)
        del engine["args"][place : place + 2]


def env(manifests: Trees, name: str, value: Any) -> None:
    for engine in engines(manifests):
        engine["env"] = [row for row in engine["env"] if row["name"] != name]
        engine["env"] += [] if value is None else [{"name": name, "value": value}]


def group(manifests: Trees) -> dict[str, Any]:
    found: dict[str, Any] = of_kind(manifests, "LeaderWorkerSet")["spec"]
    return found


def rolling(manifests: Trees) -> dict[str, Any]:
    found: dict[str, Any] = group(manifests)["rolloutStrategy"]["rollingUpdateConfiguration"]
    return found


def stateful(manifests: Trees) -> None:
    """The same pods in a StatefulSet, which creates them one after the other."""
    (old,) = [tree for tree in manifests if tree["kind"] == "LeaderWorkerSet"]
    template = pods(manifests)[0]
    template["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/name"] = old["metadata"]["name"]
    spec = {"replicas": 2, "template": template}
    manifests[manifests.index(old)] = {"kind": "StatefulSet", "metadata": old["metadata"], "spec": spec}


def each(change: Callable[[dict[str, Any]], object]) -> Callable[[Trees], None]:
    """A change of every engine's container."""

    def apply(manifests: Trees) -> None:
        for engine in engines(manifests):
            change(engine)

    return apply


def no_startup(engine: dict[str, Any]) -> None:
    engine["livenessProbe"] = engine.pop("startupProbe")


def exclusive(manifests: Trees) -> None:
    of_kind(manifests, "LeaderWorkerSet")["metadata"]["annotations"] = {
        "leaderworkerset.sigs.k8s.io/exclusive-topology": "kubernetes.io/hostname"
    }


def rename(manifests: Trees) -> None:
    of_kind(manifests, "Service")["metadata"]["name"] = "7.of_nine"


FAULTS: dict[str, Callable[[Trees], object]] = {
    "k8s-not-distributed": lambda m: drop(m, "--node-rank"),
    "k8s-nodes-against-size": lambda m: put(m, "--nnodes", "4"),
    "k8s-ranks-against-gpus": lambda m: put(m, "--tp-size", "8"),
    "k8s-ep-against-tp": lambda m: put(m, "--ep-size", "3"),
    "k8s-ep-against-experts": lambda m: [
        pod["metadata"]["annotations"].update({"io.kitctl/experts": "100"}) for pod in pods(m)
    ],
    "k8s-ranks-differ": lambda m: engines(m)[1]["args"].append("--disable-cuda-graph"),
    "k8s-dist-port-serves": lambda m: put(m, "--dist-init-addr", "$(LWS_LEADER_ADDRESS):30000"),
    "k8s-leader-ready-deadlock": lambda m: group(m).update(startupPolicy="LeaderReady"),
    "k8s-group-not-recreated": lambda m: group(m)["leaderWorkerTemplate"].update(restartPolicy="None"),
    "k8s-ordered-ranks-deadlock": stateful,
    "k8s-startup-budget": each(lambda e: e["startupProbe"].update(failureThreshold=30)),
    "k8s-no-startup-probe": each(lambda e: e.pop("startupProbe")),
    "k8s-liveness-during-load": each(no_startup),
    "k8s-no-readiness-probe": each(lambda e: e.pop("readinessProbe")),
    "k8s-probe-timeout": each(lambda e: e["readinessProbe"].pop("timeoutSeconds")),
    "k8s-shm-missing": each(lambda e: e["volumeMounts"].pop()),
    "k8s-shm-against-memory": each(lambda e: e["resources"]["limits"].update(memory="16Gi")),
    "k8s-single-host-nccl": lambda m: env(m, "NCCL_IB_DISABLE", "1"),
    "k8s-no-interface": lambda m: env(m, "GLOO_SOCKET_IFNAME", None),
    "k8s-host-network-dns": lambda m: [pod["spec"].update(hostNetwork=True) for pod in pods(m)],
    "k8s-service-reaches-workers": lambda m: of_kind(m, "Service")["spec"]["selector"].pop("role"),
    "k8s-service-name-taken": lambda m: of_kind(m, "Service")["metadata"].update(name="kitctl-ep8-dflash"),
    "k8s-service-selects-nothing": lambda m: of_kind(m, "Service")["spec"]["selector"].update(role="head"),
    "k8s-topology-never-fits": exclusive,
    "k8s-name": rename,
    "k8s-rollout-both-zero": lambda m: rolling(m).update(maxUnavailable=0),
    "k8s-rollout-needs-spare-gpus": lambda m: rolling(m).update(maxSurge=1),
    "k8s-not-text": lambda m: env(m, "OMP_NUM_THREADS", 8),
    "k8s-dflash-layout": each(lambda e: e["args"].append("--enable-dp-attention")),
    "k8s-literal-secret": lambda m: env(m, "HF_TOKEN", "hf_x"),
    "k8s-image-by-tag": each(lambda e: e.update(image="lmsysorg/sglang:latest")),
    "k8s-model-not-mounted": each(lambda e: e["volumeMounts"].pop(0)),
    "k8s-model-writable": each(lambda e: e["volumeMounts"][0].pop("readOnly")),
    "k8s-store-for-one-node": lambda m: of_kind(m, "PersistentVolumeClaim")["spec"].update(
        accessModes=["ReadWriteOnce"]
    ),
    "k8s-hub-online": lambda m: env(m, "HF_HUB_OFFLINE", None),
    "k8s-root": each(lambda e: e["securityContext"].pop("allowPrivilegeEscalation")),
}


def test_every_rule_has_a_planted_fault() -> None:
    assert FAULTS.keys() == BOOK.records.keys()


@pytest.mark.parametrize("code", FAULTS)
def test_a_planted_fault_is_found_by_its_rule_alone(code: str) -> None:
    manifests = trees(rendered(two_nodes(), 2))
    FAULTS[code](manifests)
    assert {finding.code for finding in lint(manifests)} == {code}


@pytest.mark.parametrize("key", [None, "/key"])
@pytest.mark.parametrize("nodes", [1, 2])
def test_what_kitctl_renders_is_clean(nodes: int, key: str | None) -> None:
    plan = two_nodes(api_key_file=key) if nodes == 2 else one_node(api_key_file=key)
    assert lint(trees(rendered(plan, nodes))) == ()


def test_a_finding_names_object_role_and_numbers() -> None:
    manifests = trees(rendered(two_nodes(), 2))
    FAULTS["k8s-ranks-against-gpus"](manifests)
    (found,) = lint(manifests)
    assert (found.where, found.cause) == (
        "LeaderWorkerSet kitctl-ep8-dflash",
        "tp x pp makes 8 ranks, and 2 pods with 8 GPUs each hold 16",
    )


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda m: put(m, "--pp-size", "2") or put(m, "--tp-size", "8"), "k8s-dflash-layout"),
        (lambda m: put(m, "--api-key", "sk-1"), "k8s-literal-secret"),
        (lambda m: rolling(m).update(maxUnavailable="0%", maxSurge="0%"), "k8s-rollout-both-zero"),
        (each(lambda e: e["securityContext"].update(privileged=True)), "k8s-root"),
        (lambda m: engines(m)[1].update(image="other@sha256:" + "c" * 64), "k8s-ranks-differ"),
        (lambda m: engines(m)[0]["args"].append(7) or engines(m)[1]["args"].append(7), "k8s-not-text"),
        (each(lambda e: e["resources"]["limits"].update({"nvidia.com/gpu": "4"})), "k8s-ranks-against-gpus"),
    ],
)
def test_other_faults_of_the_same_rules(change: Callable[[Trees], object], code: str) -> None:
    manifests = trees(rendered(two_nodes(), 2))
    change(manifests)
    assert {finding.code for finding in lint(manifests)} == {code}


def test_a_deployment_that_rolls_wants_spare_gpus() -> None:
    manifests = trees(rendered(one_node(), 1))
    of_kind(manifests, "Deployment")["spec"].pop("strategy")
    assert [finding.code for finding in lint(manifests)] == ["k8s-rollout-needs-spare-gpus"]


def test_a_set_without_a_leader_template_makes_its_leader_from_the_workers() -> None:
    manifests = trees(rendered(two_nodes(), 2))
    group(manifests)["leaderWorkerTemplate"].pop("leaderTemplate")
    assert [finding.code for finding in lint(manifests)] == ["k8s-service-selects-nothing"]


def test_other_objects_are_left_alone() -> None:
    web = {
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"containers": [{}]}}},
    }
    assert [finding.code for finding in lint([web])] == ["k8s-image-by-tag"]
    assert lint([{"kind": "ConfigMap"}, {}]) == ()


LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4), st.just([]), st.just({}))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_tree_of_any_shape_is_judged_without_an_error(data: st.DataObject) -> None:
    manifests = trees(rendered(two_nodes(), 2))
    for _ in range(data.draw(st.integers(1, 4))):
        node: Any = manifests
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            if isinstance(node[key], dict | list) and node[key] and data.draw(st.booleans()):
                node = node[key]
                continue
            if node is not manifests:
                node[key] = data.draw(LEAVES)
            break
    assert all(finding.remedy for finding in lint(manifests))


def test_the_page_holds_the_table_of_rules(accept: bool) -> None:
    text, wanted = PAGE.read_text(), "\n\n" + "\n".join(findings_table(BOOK)) + "\n\n"
    block = re.compile(r"(<!-- rules: [^>]*-->)(.*?)(<!-- end -->)", re.DOTALL)
    if accept:
        PAGE.write_text(block.sub(lambda found: found[1] + wanted + found[3], text))
        text = PAGE.read_text()
    found = block.search(text)
    assert found is not None
    assert found[2] == wanted
