"""What compose merged is compared with the plan; every field that differs is named."""

import copy
from typing import Any

import pytest
from planned import PCIE, host, planned

from kitctl.errors import Exit, KitError
from kitctl.plan.types import Plan
from kitctl.render.as_planned import require_as_planned

PLAN = planned("ep4", host(PCIE), gpus="0,1", settings=(("parallel.tp", 2), ("parallel.ep", 1)))


def merged(plan: Plan) -> dict[str, Any]:
    """``docker compose config --format json`` of the plan, as compose 5 prints it."""
    device = {"driver": "nvidia", "device_ids": list(plan.gpus.ids), "capabilities": ["gpu"]}
    port = {"mode": "host", "host_ip": "127.0.0.1", "target": 30000, "published": "30001", "protocol": "tcp"}
    volumes = [{"type": m.kind, "source": m.source, "target": m.target} for m in plan.mounts]
    for volume, mount in zip(volumes, plan.mounts, strict=True):
        volume |= {"read_only": True} if mount.read_only else {}  # type: ignore[assignment]
    engine = {
        "image": plan.image.reference,
        "command": [word.replace("$", "$$") for word in plan.argv],
        "environment": {"HF_HUB_OFFLINE": "1", **plan.environment},
        "deploy": {"resources": {"reservations": {"devices": [device]}}},
        "ports": [port],
        "volumes": volumes,
        "init": True,
        "read_only": True,
    }
    return {"name": plan.project, "services": {"engine": engine}}


def test_the_plan_itself_passes() -> None:
    require_as_planned(merged(PLAN), PLAN)


DEVICE = {"driver": "nvidia", "count": -1, "capabilities": ["gpu"]}
RESERVED = {"resources": {"reservations": {"devices": [DEVICE]}}}
CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "command": ({"command": ["--evil"]}, "command: planned "),
    "image": ({"image": "other:1"}, "image: planned "),
    "second request": ({"gpus": [DEVICE]}, "devices: planned [['0', '1']], merged [['0', '1'], None]"),
    "all gpus": ({"deploy": RESERVED}, "devices: planned [['0', '1']], merged [None]"),
    "no gpus": ({"deploy": {}}, "devices: planned [['0', '1']], merged []"),
    "no init": ({"init": False}, "init: planned True, merged False"),
    "a root that can be written": ({"read_only": False}, "read_only: planned True, merged False"),
    "no port": ({"ports": []}, "ports: planned ['127.0.0.1:30001:30000'], merged []"),
    "environment": ({"environment": {"NCCL_P2P_LEVEL": "LOC"}}, "environment: planned "),
    "mounts": ({"volumes": [{"type": "bind", "source": "/", "target": "/host"}]}, "mounts: planned "),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_is_refused_and_named(name: str) -> None:
    change, said = CHANGES[name]
    config = copy.deepcopy(merged(PLAN))
    config["services"]["engine"] |= change
    with pytest.raises(KitError) as refused:
        require_as_planned(config, PLAN)
    (evidence,) = refused.value.evidence
    assert evidence.startswith(said)
    assert (refused.value.code, refused.value.exit_code) == ("not-as-planned", Exit.REFUSED)
    assert refused.value.cause == "the merged compose project is not what was planned"


def test_another_service_needs_an_add_on_overlay_and_gets_no_gpus() -> None:
    with_addon = planned("ep4", host(PCIE), addons=("rdma",))
    config = merged(with_addon)
    config["services"]["watcher"] = {"image": "x"}
    require_as_planned(config, with_addon)
    config["services"]["watcher"]["deploy"] = RESERVED
    with pytest.raises(KitError) as refused:
        require_as_planned(config, with_addon)
    assert refused.value.evidence == ("service watcher asks for GPUs too",)
    alone = merged(PLAN)
    alone["services"]["watcher"] = {"image": "x"}
    with pytest.raises(KitError) as refused:
        require_as_planned(alone, PLAN)
    assert refused.value.evidence == ("service watcher is not in the plan",)
