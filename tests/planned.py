"""Plans for tests: any stack of the kit on any known host, without an engine, a probe or a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kitctl.commands.planning import load_kit
from kitctl.edge.kit_files import find_kit, load_pin_texts
from kitctl.host.facts import ContainerEngine, Gpu, HostFacts, Topology
from kitctl.host.read_topology import read_topology
from kitctl.kit.catalog import stack_names
from kitctl.plan.image_choice import choose_image
from kitctl.plan.placement import place_stack
from kitctl.plan.planner import compose_plan
from kitctl.plan.rehearsal import resolve_for_host
from kitctl.plan.types import Plan, PlannedModel, Request
from kitctl.render.compose import render_compose

ROOT = Path(__file__).parent.parent
HOSTS = Path(__file__).parent / "cases" / "hosts"
KIT_DIR = find_kit(str(ROOT))
KIT = load_kit(KIT_DIR)
STACKS = stack_names(KIT.texts)
HOST_NAMES = tuple(sorted(path.name.removesuffix(".topo.txt") for path in HOSTS.glob("*.topo.txt")))
PCIE, NVLINK = "04-rtxpro6000-8x-2socket-direct", "22-nv18-8x-no-nic"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
PINS = "a" * 64


def host(name: str, *, driver: str | None = "nvidia") -> HostFacts:
    """The facts of a known host: its GPUs, free, with the links of its captured topology."""
    about = json.loads((HOSTS / f"{name}.json").read_text())
    topology = read_topology((HOSTS / f"{name}.topo.txt").read_text())
    assert isinstance(topology, Topology)
    gpus = tuple(
        Gpu(index=index, name=about["gpu_name"] or "some GPU", uuid=f"GPU-{index}", compute_capability="12.0")
        for index in topology.gpu_indices
    )
    return HostFacts(gpus=gpus, topology=topology, engine=ContainerEngine(gpu_driver=driver))


def planned(stack: str, facts: HostFacts | None = None, **request: Any) -> Plan:
    """The plan of ``stack`` on the host, with models at a fixed place and an image with a fixed tag."""
    asked = Request(stack=stack, **request)
    hosted = resolve_for_host(KIT.texts, asked, KIT.overlays)
    found = hosted.resolved.stack
    facts = facts or HostFacts(unknown={"gpus": "no probe"})
    image = choose_image(found, asked, pin_texts=load_pin_texts(KIT_DIR, found.image.name))
    return compose_plan(
        asked,
        kit=KIT,
        hosted=hosted,
        placement=place_stack(found, asked, overlays=KIT.overlays, facts=facts),
        image=image,
        models=tuple(
            PlannedModel(
                model=model,
                role=role,
                folder=f"/store/models--{model.replace('/', '--')}",
                inner=f"snapshots/{COMMIT}",
                commit=COMMIT,
            )
            for role, model in {"target": found.model, **_drafter(found)}.items()
        ),
        facts=facts,
    )


def _drafter(stack: Any) -> dict[str, str]:
    return {"drafter": stack.drafter.model} if stack.drafter else {}


def rendered(plan: Plan) -> dict[str, str]:
    """The plan's compose folder."""
    return render_compose(plan, base=KIT.base, overlays=tuple(KIT.overlays[name] for name in plan.overlays))
