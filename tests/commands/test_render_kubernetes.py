"""``kitctl render --to kubernetes`` and ``kitctl lint`` as a user runs them, and the commands of the docs page."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster_case import DIGEST, KITCTL
from kitctl_process import KitUser

ROOT = Path(__file__).parents[2]
B200 = ROOT / "tests" / "cases" / "facts" / "nvlink-8x-b200.json"
PAGE = (ROOT / "docs" / "kubernetes.md").read_text()
TWO_NODES = (
    "render",
    "ep8-dflash",
    "--set",
    "parallel.tp=16",
    "--to",
    "kubernetes",
    "--nodes",
    "2",
    "-o",
    "m",
)
PINNED = ("--image", DIGEST, "--kitctl-image", KITCTL)
FILES = [
    "kustomization.yaml",
    "models-claim.yaml",
    "models-job.yaml",
    "models-lock.yaml",
    "server.yaml",
    "service.yaml",
    "servicemonitor.yaml",
]


def refused(findings: list[dict[str, Any]]) -> list[str]:
    return [finding["code"] for finding in findings if finding["severity"] == "block"]


def page_commands() -> list[list[str]]:
    """kitctl's own commands on the page, in order."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    return [shlex.split(line)[1:] for block in blocks for line in block.splitlines() if line[:7] == "kitctl "]


def test_the_pages_commands_work(kit_user: KitUser) -> None:
    render, lint = page_commands()
    found = kit_user.json(*render, "--skip", "model-unlocked")
    assert found["files"] == FILES
    assert found["left_out"] == {"NCCL_IB_DISABLE": "1", "NCCL_P2P_LEVEL": "SYS", "NCCL_MIN_NCHANNELS": "8"}
    done = kit_user.run(*lint)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "6 objects, 36 rules, 0 that block"


def test_the_pages_key_secret_is_the_one_that_the_pod_mounts(kit_user: KitUser, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("sk-topsecret\n")
    kit_user.json(*TWO_NODES, *PINNED, "--skip", "model-unlocked", "--api-key-file", str(key))
    folder = kit_user.home / "m"
    texts = {path.name: path.read_text() for path in folder.iterdir()}
    assert [name for name, text in texts.items() if "sk-topsecret" in text] == []
    assert "secretName: kitctl-ep8-dflash-api-key" in texts["server.yaml"]
    assert "kubectl create secret generic kitctl-ep8-dflash-api-key --from-file=api-key=FILE" in PAGE


def test_a_model_that_cannot_be_fetched_there_blocks_and_this_machine_does_not(kit_user: KitUser) -> None:
    found = kit_user.json(*TWO_NODES, *PINNED, exit_code=3)
    assert refused(found["findings"]) == ["model-unlocked", "model-unlocked"]
    assert found["files"] == FILES


def test_a_nodes_facts_are_judged(kit_user: KitUser) -> None:
    words = (*TWO_NODES, *PINNED, "--skip", "model-unlocked", "--facts", str(B200))
    found = kit_user.json(*words)
    assert "memory-not-judged" not in [finding["code"] for finding in found["findings"]]
    found = kit_user.json(*words, "--set", "engine.mem_fraction_static=0.1", exit_code=3)
    assert refused(found["findings"]) == ["memory-does-not-fit"]


def test_a_layout_that_does_not_fill_the_nodes_leaves_nothing(kit_user: KitUser) -> None:
    found = kit_user.json("render", "ep8", "--to", "kubernetes", "--nodes", "2", "-o", "m", exit_code=3)
    assert found["code"] == "nodes-against-layout"
    assert found["remedy"] == "--set parallel.tp=16, or other --nodes and --gpus-per-node"
    assert not (kit_user.home / "m").exists()


def test_a_drafter_over_a_pipeline_is_refused(kit_user: KitUser) -> None:
    words = (
        "render",
        "ep8-dflash",
        "--set",
        "parallel.pp=2",
        "--to",
        "kubernetes",
        "--nodes",
        "2",
        "-o",
        "m",
    )
    assert kit_user.json(*words, exit_code=3)["code"] == "dflash-against-pipeline"


def test_a_rule_of_the_linter_that_blocks_leaves_nothing(kit_user: KitUser) -> None:
    found = kit_user.json(*TWO_NODES, "--name", "a" * 48, "--skip", "model-unlocked", exit_code=3)
    assert (refused(found["findings"]), found["files"]) == (["k8s-name", "k8s-name"], [])
    assert not (kit_user.home / "m").exists()


def test_the_demo_goes_onto_one_node_without_gpus(kit_user: KitUser) -> None:
    kit_user.json("render", "cpu-demo", "--to", "kubernetes", "-o", "m")
    server = yaml.safe_load((kit_user.home / "m" / "server.yaml").read_text())
    (engine,) = server["spec"]["template"]["spec"]["containers"]
    assert (server["kind"], list(engine["resources"]["limits"])) == ("Deployment", ["memory"])
    (fetch,) = yaml.safe_load((kit_user.home / "m" / "models-job.yaml").read_text())["spec"]["template"][
        "spec"
    ]["initContainers"]
    assert fetch["command"] == ["sh", "-ec", "kitctl models pull kitctl/demo"]


def test_a_planted_fault_in_a_folder_and_on_stdin_is_refused(kit_user: KitUser) -> None:
    kit_user.json(*TWO_NODES, *PINNED, "--skip", "model-unlocked")
    server = kit_user.home / "m" / "server.yaml"
    server.write_text(server.read_text().replace("LeaderCreated", "LeaderReady"))
    found = kit_user.json("lint", "m", exit_code=3)
    assert refused(found["findings"]) == ["k8s-leader-ready-deadlock"]
    with server.open() as text:
        done = kit_user.run("lint", "-", "--json", stdin=text)
    assert (done.returncode, refused(json.loads(done.stdout)["findings"])) == (
        3,
        ["k8s-leader-ready-deadlock"],
    )
    assert kit_user.run("lint", "m", "--skip", "k8s-leader-ready-deadlock").returncode == 0


@pytest.mark.parametrize(
    ("files", "code"),
    [({}, "no-manifests"), ({"a.yaml": "a: 1\n---\nb: [\n"}, "bad-yaml")],
)
def test_a_folder_that_cannot_be_judged(kit_user: KitUser, files: dict[str, str], code: str) -> None:
    (kit_user.home / "m").mkdir()
    for name, text in files.items():
        (kit_user.home / "m" / name).write_text(text)
    assert kit_user.json("lint", "m", exit_code=2)["code"] == code


def test_gpus_of_a_node_are_for_kubernetes_alone(kit_user: KitUser) -> None:
    found = kit_user.json("render", "cpu-demo", "--gpus-per-node", "2", "-o", "m", exit_code=2)
    assert found["code"] == "option-of-kubernetes"
