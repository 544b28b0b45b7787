"""Every stack on every known host renders to a folder that compose accepts, the same bytes each time.

Gold files are the whole ``stack.yaml``; accept a wanted change with ``pytest tests/render --accept``.
"""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from planned import HOST_NAMES, KIT, NVLINK, PCIE, STACKS, host, planned, rendered

from kitctl.plan.types import Mount, Plan
from kitctl.render.as_planned import require_as_planned
from kitctl.render.compose import base_url, decisive, fingerprint, key_files, plan_json

GOLD = Path(__file__).parent.parent / "cases" / "render"
CASES: dict[str, Plan] = {
    "ep4-dflash.pcie": planned("ep4-dflash", host(PCIE)),
    "ep4-dflash.nvlink": planned("ep4-dflash", host(NVLINK)),
    "tp8-eager.cdi": planned("tp8-eager", host(PCIE, driver="cdi")),
    "cpu-demo": planned("cpu-demo"),
    "ep4-dflash.rehearsal": planned("ep4-dflash", rehearse=True, port=4000, api_key_file="/key"),
    "pp8.boot": planned("pp8", host(NVLINK), boot=True),
}


def write(files: dict[str, str], folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def compose_config(folder: Path) -> dict[str, Any]:
    argv = ["docker", "compose", "--project-directory", str(folder), "config", "--format", "json"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    config: dict[str, Any] = json.loads(done.stdout)
    return config


@pytest.mark.parametrize("name", CASES)
def test_gold(name: str, accept: bool) -> None:
    gold, actual = GOLD / f"{name}.yaml", GOLD / f"{name}.actual.yaml"
    text = rendered(CASES[name])["stack.yaml"].replace(CASES[name].image.reference, "IMAGE")
    key = CASES[name].image.pins_hash or ""
    mark = fingerprint(CASES[name])
    text = text.replace(key[:12], "PINS").replace(f"'{mark}'", mark).replace(mark, "FINGERPRINT")
    if accept:
        gold.write_text(text)
    if gold.read_text() != text:
        actual.write_text(text)
    else:
        actual.unlink(missing_ok=True)
    assert text == gold.read_text(), f"see {actual.name}; a wanted change: pytest tests/render --accept"


@pytest.mark.parametrize("stack", STACKS)
def test_every_stack_on_every_known_host_renders_alike_twice(stack: str) -> None:
    for name in HOST_NAMES:
        plan = planned(stack, host(name))
        files = rendered(plan)
        assert files == rendered(planned(stack, host(name)))
        tree = yaml.safe_load(files["stack.yaml"])["services"]["engine"]
        assert (tree["command"], tree["image"]) == (list(plan.argv), plan.image.reference)
        assert files[".env"].splitlines()[0] == f"COMPOSE_PROJECT_NAME={plan.project}"


@pytest.mark.docker
@pytest.mark.parametrize("name", [PCIE, NVLINK])
@pytest.mark.parametrize("stack", STACKS)
def test_compose_accepts_every_stack_and_merges_what_was_planned(
    stack: str, name: str, tmp_path: Path
) -> None:
    """``docker compose config`` needs the docker command and no engine."""
    plan = planned(stack, host(name))
    require_as_planned(compose_config(write(rendered(plan), tmp_path)), plan)


@pytest.mark.docker
@pytest.mark.parametrize("name", CASES)
def test_compose_accepts_each_case(name: str, tmp_path: Path) -> None:
    plan = CASES[name]
    files = rendered(plan) | (key_files("secret", "launcher") if plan.api_key_file else {})
    require_as_planned(compose_config(write(files, tmp_path)), plan)


def test_a_pcie_and_an_nvlink_host_differ_by_what_the_overlays_say_alone() -> None:
    pcie, nvlink = (
        yaml.safe_load(rendered(CASES[f"ep4-dflash.{kind}"])["stack.yaml"]) for kind in ("pcie", "nvlink")
    )
    one, two = pcie["services"]["engine"], nvlink["services"]["engine"]
    differing = {key for key in one if one[key] != two[key]}
    assert differing == {"command", "environment", "labels"}
    assert set(one["command"]) ^ set(two["command"]) == {"--disable-custom-all-reduce"}
    pcie_own = KIT.overlays["pcie"].environment.keys() - KIT.overlays["nvlink"].environment.keys()
    assert one["environment"].keys() - two["environment"].keys() == pcie_own
    labels = {key for key in one["labels"] if one["labels"][key] != two["labels"][key]}
    assert labels == {"io.kitctl.plan", "io.kitctl.overlays"}


@pytest.mark.docker
def test_odd_text_survives_compose(tmp_path: Path) -> None:
    words = (
        "--chat-template",
        "${HOME} $5 'q' \"d\" ünï: # no {{comment}}",
        "--x",
        "null",
        "--y",
        "0123",
        "--z",
        "1e3",
    )
    plan = planned("cpu-demo", engine_flags=words, settings=(("environment.A", "$B ${C:-d} : #"),))
    odd = replace(plan, mounts=(Mount(kind="bind", source="/a b/$x", target="/m", read_only=True),))
    require_as_planned(compose_config(write(rendered(odd), tmp_path / "a folder")), odd)


def test_no_key_stands_in_what_is_rendered_for_all_to_see() -> None:
    plan = CASES["ep4-dflash.rehearsal"]
    files = rendered(plan) | key_files("topsecret", "launcher")
    assert [name for name, text in files.items() if "topsecret" in text] == ["api-key"]
    assert "/key" not in json.dumps(plan_json(plan)["decisive"])


def test_fingerprint_covers_all_that_decides_what_runs() -> None:
    plan = planned("ep4", host(PCIE))
    changes = [
        planned("ep4", host(PCIE), port=31000),
        planned("ep4", host(PCIE), bind="0.0.0.0"),
        planned("ep4", host(PCIE), boot=True),
        planned("ep4", host(PCIE), image="other:1"),
        planned("ep4", host(PCIE), addons=("rdma",)),
        planned("ep4", host(PCIE), api_key_file="/key"),
        planned("ep4", host(NVLINK)),
        planned("ep4", host(PCIE, driver="cdi")),
        planned("ep4", host(PCIE), engine_flags=("--x",)),
        planned("ep4", host(PCIE), settings=(("serve.stop_grace_s", 5),)),
        planned("ep4", host(PCIE), settings=(("environment.A", "1"),)),
    ]
    assert len({fingerprint(plan), *map(fingerprint, changes)}) == len(changes) + 1
    assert fingerprint(planned("ep4", host(PCIE))) == fingerprint(plan)
    assert all(decisive(change) != decisive(plan) for change in changes)


@pytest.mark.parametrize(
    ("bind", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:30001"),
        ("0.0.0.0", "http://127.0.0.1:30001"),
        ("::", "http://[::1]:30001"),
        ("::1", "http://[::1]:30001"),
        ("10.0.0.7", "http://10.0.0.7:30001"),
    ],
)
def test_base_url(bind: str, url: str) -> None:
    assert base_url(planned("cpu-demo", bind=bind)) == url


def test_plan_json_is_a_contract() -> None:
    body = plan_json(planned("ep4-dflash", host(PCIE)))
    assert body["schema"] == "kitctl.plan/1"
    assert {
        "schema", "stack", "fingerprint", "url", "settings", "decisive", "project", "image", "overlays", "argv",
        "environment", "gpus", "models", "mounts", "published", "model_name", "rehearsal", "boot", "api_key_file",
        "left_out", "findings", "why", "memory",
    } <= set(body)  # fmt: skip
    assert {"reference", "release", "stage", "name", "pins_hash"} <= set(body["image"])
    assert {"driver", "ids", "indices"} <= set(body["gpus"])
    assert {"model", "role", "folder", "inner", "missing_bytes", "commit", "generated", "findings"} <= set(
        body["models"][0]
    )
    assert set(body["mounts"][0]) == {"kind", "source", "target", "read_only"}
    assert set(body["published"]) == {"bind", "port", "container_port"}
    assert json.loads(json.dumps(body, allow_nan=False)) == json.loads(json.dumps(body))


def test_an_image_of_others_has_its_home_where_it_may_write() -> None:
    own, others = planned("cpu-demo"), planned("cpu-demo", image="registry.example/sglang:1")
    homes = [
        yaml.safe_load(rendered(plan)["stack.yaml"])["services"]["engine"]["environment"].get("HOME")
        for plan in (own, others)
    ]
    assert homes == [None, "/cache"]


@pytest.mark.docker
def test_the_root_is_read_only_unless_the_stack_says_otherwise(tmp_path: Path) -> None:
    loose = planned("cpu-demo", settings=(("serve.read_only_root", False),))
    for plan, wanted in ((planned("cpu-demo"), True), (loose, False)):
        merged = compose_config(write(rendered(plan), tmp_path / str(wanted)))
        require_as_planned(merged, plan)
        engine = merged["services"]["engine"]
        assert (bool(engine.get("read_only")), engine["cap_drop"]) == (wanted, ["ALL"])
        assert engine["security_opt"] == ["no-new-privileges:true"]
    assert fingerprint(loose) != fingerprint(planned("cpu-demo"))
