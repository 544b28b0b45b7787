"""Every check of a plan: its own choices, models, engine rules, host. All run, whatever the others say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kitctl.commands.memory_judging import Shapes
from kitctl.edge.docker_engine import image_id, image_user
from kitctl.edge.file_modes import closed_below
from kitctl.edge.files import read_text_if_there
from kitctl.edge.host_data import load_host_tables
from kitctl.edge.package_data import package_text, package_text_if_there
from kitctl.errors import KitError
from kitctl.finding import Finding
from kitctl.host.facts import HostFacts
from kitctl.kit.drafter_facts import read_drafter_facts
from kitctl.kit.flag_table import read_flag_table
from kitctl.kit.model_facts import read_model_facts
from kitctl.kit.models_lock import ModelEntry
from kitctl.kit.overlay import Scope
from kitctl.plan.addons import check_addon_images
from kitctl.plan.engine_rules import check_rules, read_rules
from kitctl.plan.host_checks import check_host
from kitctl.plan.host_need import HostNeed, need_of_plan
from kitctl.plan.image_choice import read_image_sizes
from kitctl.plan.own_checks import check_plan
from kitctl.plan.placement import Placement
from kitctl.plan.ranks import gpus_of_all
from kitctl.plan.read_access import ENGINE_UID, check_read_access, uid_of
from kitctl.plan.space_checks import check_port
from kitctl.plan.types import Plan


def judge(
    plan: Plan,
    placement: Placement,
    facts: HostFacts,
    shapes: Shapes,
    *,
    store_dir: str,
    ram_bytes: int,
    lacks_image: bool,
    on_engine: bool = True,
) -> tuple[Finding, ...]:
    """All checks, each run whatever the others say. ``on_engine``: the plan is for the engine in use."""
    models = tuple(finding for model in plan.models if not model.generated for finding in model.findings)
    missing = sum(model.missing_bytes or 0 for model in plan.models)
    need = need_of_plan(
        plan,
        overlays=placement.overlays,
        image_cuda=plan.image.cuda,
        image_archs=plan.image.archs,
        own_project=plan.project,
        disk_bytes=_bytes_to_write(
            plan, facts, store_dir=store_dir, missing_bytes=missing, lacks_image=lacks_image
        ),
        ram_bytes=ram_bytes,
        graph_file=read_text_if_there(plan.environment.get("NCCL_GRAPH_FILE", "")),
    )
    return (
        *check_plan(plan),
        *models,
        *(judge_access(plan) if on_engine else ()),
        *judge_engine(plan, placement, shapes),
        *check_host(facts, need=need, tables=load_host_tables()),
        *judge_addons(plan, facts, need, on_engine=on_engine),
    )


def judge_addons(plan: Plan, facts: HostFacts, need: HostNeed, *, on_engine: bool) -> tuple[Finding, ...]:
    """Ports and images of the add-ons' services; images only where this machine's engine is the plan's."""
    tables = load_host_tables()
    ports = [
        finding
        for one in plan.endpoints
        if one.scope is not Scope.ENGINE
        for finding in check_port(facts, replace(need, port=one.port, bind=one.bind), tables)
    ]
    present = {one.image: is_on_engine(one.image) for one in plan.addon_services} if on_engine else {}
    return (*ports, *check_addon_images(plan, present))


def judge_access(plan: Plan) -> tuple[Finding, ...]:
    """Whether the engine's user may read what is mounted; silent where the image's user cannot be known."""
    uid = _engine_uid(plan)
    if uid is None:
        return ()
    found = (check_read_access(model, closed_below(model.folder, uid=uid), uid=uid) for model in plan.models)
    return tuple(finding for finding in found if finding is not None)


def _engine_uid(plan: Plan) -> int | None:
    if plan.stack.image.reference is None:
        return ENGINE_UID
    try:
        user = image_user(plan.stack.image.reference)
    except KitError:
        return None
    return None if user is None else uid_of(user)


def _bytes_to_write(
    plan: Plan, facts: HostFacts, *, store_dir: str, missing_bytes: int, lacks_image: bool
) -> dict[str, int]:
    """Models into the store, and the image into the engine's root when it is not there yet."""
    needed = {store_dir: missing_bytes} if missing_bytes else {}
    root = facts.engine.root_dir if facts.engine is not None else None
    sizes = read_image_sizes(package_text("image_sizes.toml"))
    size = sizes.get(plan.image.release or "", {}).get(plan.image.stage)
    if root and size and lacks_image:
        needed[root] = needed.get(root, 0) + size
    return needed


def is_on_engine(reference: str) -> bool:
    """Whether the engine in use holds the image; unknown counts as there, since nothing can be built then."""
    try:
        return image_id(reference) is not None
    except KitError:
        return True


def judge_engine(plan: Plan, placement: Placement, shapes: Shapes) -> tuple[Finding, ...]:
    """What the pinned engine would refuse late or accept silently, and whether the drafter fits its target."""
    release = plan.image.release or ""
    table = package_text_if_there(f"flags/{release}.json")
    return check_rules(
        plan.stack,
        book=read_rules(package_text("engine_rules.yaml")),
        release=release,
        argv=plan.argv,
        archs=placement.archs,
        model=shapes.target,
        drafter=shapes.drafter,
        environment=plan.environment,
        gpu_count=gpus_of_all(plan) if placement.gpus is not None and not placement.gpus.findings else None,
        links=placement.links,
        flag_table=read_flag_table(table, source=f"flags/{release}.json") if table else None,
    )


def read_shapes(entries: Mapping[str, ModelEntry]) -> Shapes:
    """The models' config.json. Raises KitError ``model-config`` (exit 2)."""
    drafter = entries.get("drafter")
    return Shapes(
        target=read_model_facts(config_text(entries["target"]), source=entries["target"].repo),
        drafter=read_drafter_facts(config_text(drafter), source=drafter.repo) if drafter else None,
    )


def config_text(entry: ModelEntry) -> str:
    """The model's config.json as the lock holds it; an empty object for a model that has none."""
    return entry.config_json or "{}"
