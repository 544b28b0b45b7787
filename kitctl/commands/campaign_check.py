"""Before a campaign starts: all plans of all stacks together, what must be fetched and built, and how long it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kitctl.bench.results import ResultFile, read_results
from kitctl.campaign.arms import Arm
from kitctl.campaign.events import Reason
from kitctl.campaign.forecast import LoadTime, load_time
from kitctl.commands.bench_options import dataset_of
from kitctl.commands.campaign_options import Starting, up_arguments
from kitctl.commands.last_start import last_phases
from kitctl.commands.measure_start import yardstick_of
from kitctl.commands.planning import Planned, make_plan
from kitctl.edge.docker_engine import image_id
from kitctl.edge.package_data import package_text
from kitctl.errors import Exit, KitError
from kitctl.finding import Finding, blocking
from kitctl.host.facts import HostFacts
from kitctl.kit.campaign import Campaign, Then
from kitctl.result import Context


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What is known before the start. ``blocked``: arms that cannot run; ``missing``: bytes by model."""

    planned: Mapping[str, Planned]
    blocked: Mapping[str, Reason]
    missing: Mapping[str, int]
    builds: tuple[str, ...]
    loads: Mapping[str, LoadTime]
    free_bytes: int | None

    @property
    def neighbours(self) -> dict[str, tuple[str, ...]]:
        """Image and target model by arm."""
        return {arm: (p.plan.image.reference, p.plan.stack.model) for arm, p in self.planned.items()}


def check_arms(arms: Sequence[Arm], starting: Starting, *, facts: HostFacts, context: Context) -> Checked:
    """Plan and judge every arm against the same facts. Raises KitError (exit 2) for what a file gets wrong."""
    planned: dict[str, Planned] = {}
    blocked: dict[str, Reason] = {}
    for arm in arms:
        try:
            found = make_plan(up_arguments(arm, starting), context, facts=facts)
        except KitError as refused:
            if refused.exit_code is not Exit.REFUSED:
                raise
            blocked[arm.id] = reason_of_error(refused)
            continue
        planned[arm.id] = found
        wrong = blocking(found.plan.findings)
        if wrong:
            blocked[arm.id] = reason_of_findings(wrong)
    runnable = {arm: found for arm, found in planned.items() if arm not in blocked}
    images = dict.fromkeys(found.plan.image.reference for found in runnable.values())
    return Checked(
        planned=planned,
        blocked=blocked,
        missing=_missing(runnable),
        builds=tuple(image for image in images if image_id(image) is None),
        loads={arm.id: _load_time(planned.get(arm.id)) for arm in arms},
        free_bytes=next((_free(found) for found in runnable.values()), None),
    )


def without_verdicts(checked: Checked) -> Checked:
    """The same while a stack of this campaign is still up: what the checks hold against others may be its own port or
    GPUs, so each is judged again when its turn comes."""
    return replace(
        checked, blocked={arm: why for arm, why in checked.blocked.items() if arm not in checked.planned}
    )


def reason_of_error(failed: KitError) -> Reason:
    """An error as the reason of a hole."""
    return Reason(code=failed.code, cause=failed.cause, evidence=tuple(failed.evidence), remedy=failed.remedy)


def reason_of_findings(found: Sequence[Finding]) -> Reason:
    """Blocking findings as one reason: the first, and the others' causes as evidence."""
    first, *others = found
    more = tuple(f"also {other.code}: {other.cause}" for other in others)
    return Reason(code=first.code, cause=first.cause, evidence=(*first.evidence, *more), remedy=first.remedy)


def _missing(planned: Mapping[str, Planned]) -> dict[str, int]:
    models = {model.model: model.missing_bytes or 0 for p in planned.values() for model in p.plan.models}
    return {model: size for model, size in models.items() if size}


def _load_time(planned: Planned | None) -> LoadTime:
    if planned is None:
        return LoadTime(seconds=0.0, by="it cannot run")
    last = yardstick_of(planned).last_load
    if last is None and planned.plan.rehearsal:
        last = last_phases(None, rehearsal=True)  # all rehearsals load the same model
    last_s = sum(last.values()) if last else None
    return load_time(expected_s=(planned.plan.load or {}).get("expected_s"), last_s=last_s)


def _free(planned: Planned) -> int | None:
    disks = planned.facts.disks or ()
    return next((disk.free_bytes for disk in disks if disk.path == planned.store_dir), None)


def require_datasets(campaign: Campaign) -> None:
    """Read every prompt set that will be measured with. Raises KitError (exit 2) for one that cannot be used."""
    runs = (campaign.accept, campaign.parity)
    names = [load.dataset for load in campaign.loads] + [one.dataset for one in runs if one is not None]
    for name in dict.fromkeys(names):
        dataset_of(name)


def require_room(campaign: Campaign, checked: Checked) -> None:
    """Raises KitError ``campaign-disk`` (exit 3) when what all stacks need does not fit the disk or the budget."""
    total = sum(checked.missing.values())
    limits = {"the budget allows": campaign.budget.disk_bytes, "the disk has": checked.free_bytes}
    for words, limit in limits.items():
        if limit is not None and total > limit:
            raise KitError(
                "campaign-disk",
                f"the stacks need {total} bytes of models that are not here, and {words} {limit}",
                evidence=tuple(f"{model}: {size} bytes" for model, size in checked.missing.items()),
                remedy="take stacks out, raise budget.disk_bytes, or give a store on another disk with --store",
                exit_code=Exit.REFUSED,
            )


def require_all(campaign: Campaign, checked: Checked) -> None:
    """With ``failure.then: stop`` raises KitError ``campaign-refused`` (exit 3) when any stack cannot run."""
    if campaign.failure.then is Then.STOP and checked.blocked:
        raise KitError(
            "campaign-refused",
            f"{len(checked.blocked)} of the campaign's configurations cannot run, and its policy is to stop",
            evidence=tuple(f"{arm}: {why.cause} ({why.code})" for arm, why in checked.blocked.items()),
            remedy="mend them, take them out, or set failure.then to skip",
            exit_code=Exit.REFUSED,
        )


def published_rates() -> tuple[ResultFile, ...]:
    """The reference table, for a first estimate."""
    return read_results("published", package_text("published/reference.jsonl"))
