"""What must be there before a start: image and models, and the words for a start that may not be."""

from __future__ import annotations

from kitctl.commands.image_proof import prove_image
from kitctl.commands.planning import Planned
from kitctl.edge.cache_volumes import is_half_filled
from kitctl.edge.docker_engine import image_id
from kitctl.errors import Exit, KitError
from kitctl.finding import finding_lines
from kitctl.plan.types import Plan, PlannedModel
from kitctl.render.compose import plan_json
from kitctl.result import Context, Result
from kitctl.store.verify_report import require_ready
from kitctl.watch.run_record import RunModel


def refused_result(plan: Plan) -> Result:
    """All findings, nothing started: exit 3."""
    lines = (
        *finding_lines(plan.findings),
        f"{plan.stack.name}: refused; nothing was fetched, built or started",
    )
    return Result(data=up_json(plan, outcome="refused"), lines=lines, exit=Exit.REFUSED)


def dry_run_result(plan: Plan, outcome: str) -> Result:
    """What ``up`` would do, with all findings; ``outcome``: what would become of a stack that is there already."""
    lines = (*finding_lines(plan.findings), f"{plan.stack.name}: {outcome.replace('-', ' ')}")
    return Result(data=up_json(plan, outcome=outcome), lines=lines)


def up_json(plan: Plan, *, outcome: str, **more: object) -> dict[str, object]:
    """``up --json``: the versioned contract ``kitctl.up/1``."""
    return {"schema": "kitctl.up/1", "outcome": outcome, "plan": plan_json(plan), **more}


def ensure_image(
    planned: Planned, *, may_build: bool, context: Context, skip: frozenset[str] = frozenset()
) -> str:
    """The image's id, built first when it is not there.

    Raises KitError (exit 3) ``image-missing`` when it may not or cannot be built, ``image-pins-differ`` and
    ``image-failed`` for one that is not as pinned or failed its test, and what a build raises (exit 4).
    """
    image = planned.plan.image
    found = image_id(image.reference)
    if found is not None:
        for finding in prove_image(image, skip=skip):
            context.say(f"image: {finding.cause}")
        return found
    if not may_build or image.name is None:
        raise _image_missing(image.reference, can_build=image.name is not None)
    from kitctl.commands.build import build_image

    context.say(f"image: {image.reference} is not on this engine; building it")
    build_image(planned.kit_dir, image.name, release=image.release, stage=image.stage, context=context)
    built = image_id(image.reference)
    if built is None:
        raise _image_missing(image.reference, can_build=True)
    return built


def require_whole_caches(plan: Plan) -> None:
    """Raises KitError ``cache-half-filled`` (exit 3) for a cache volume that a bundle's import fills or left behind."""
    for mount in plan.mounts:
        if mount.kind == "volume" and is_half_filled(mount.source):
            raise KitError(
                "cache-half-filled",
                f"the cache volume {mount.source} is half filled: an import of a bundle runs or was cut off",
                remedy="run the same kitctl bundle import again: it fills the volume anew",
                exit_code=Exit.REFUSED,
            )


def ensure_models(planned: Planned, *, may_pull: bool, context: Context) -> tuple[RunModel, ...]:
    """The plan's models, copied or fetched first when they are not there. Raises KitError (exit 3 or 5)."""
    return tuple(
        _ensure_model(planned, model, may_pull=may_pull, context=context) for model in planned.plan.models
    )


def _ensure_model(planned: Planned, model: PlannedModel, *, may_pull: bool, context: Context) -> RunModel:
    """Every byte is proven once and again after each change; what is there and proven costs no request.

    What the kit ships is no fetch: it comes from this machine whether or not a model may be pulled.
    """
    from kitctl.edge.pull import pull_model
    from kitctl.edge.verify import verify_model

    entry = planned.entries[model.role]
    if may_pull or model.generated:
        pull_model(entry, planned.store_dir, say=context.say)
    else:
        require_ready(verify_model(entry, planned.store_dir, deep=True, say=context.say).report)
    content = entry.content_hash if model.generated else None
    return RunModel(model=model.model, role=model.role, commit=model.commit, content_hash=content)


def _image_missing(reference: str, *, can_build: bool) -> KitError:
    return KitError(
        "image-missing",
        f"the image {reference} is not on this engine",
        remedy="kitctl build, or up without --no-build"
        if can_build
        else f"docker pull {reference}, then up again",
        exit_code=Exit.REFUSED,
    )
