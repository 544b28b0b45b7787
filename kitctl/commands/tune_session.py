"""The search itself: ask for settings, bring the stack up with them, measure until it is clear, tell the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kitctl import __version__
from kitctl.campaign.arms import Arm
from kitctl.campaign.events import Asked, Ended, SearchBegun, Session
from kitctl.campaign.schedule import Visit
from kitctl.campaign.search import (
    Settings,
    Space,
    Target,
    Trial,
    arm_name,
    best_of,
    judged,
    trial_works,
    trials_of,
    value_of,
    why_failed,
)
from kitctl.commands.campaign_visit import Run, visit_arm
from kitctl.edge.optimizer import Optimizer
from kitctl.kit.campaign import Scalar

MOST_REPEATED_ASKS = 200


@dataclass(frozen=True, kw_only=True)
class Search:
    """What is searched. ``own``: where it begins: the stack as it is, where its values are in the space."""

    stack: str
    target: Target
    space: Space
    own: Settings
    trials: int
    repeats: int


def run_search(search: Search, run: Run) -> tuple[Trial, ...]:
    """All trials, those of earlier sessions first. Ends when enough were judged, the time is spent or the space is."""
    optimizer = _open_book(search, run)
    repeated = 0
    while _judged(run) < search.trials and not run.is_over() and repeated < MOST_REPEATED_ASKS:
        open_trial = next((t for t in trials_of(run.book.entries) if t.outcome is None), None)
        if open_trial is not None:
            optimizer.begin(dict(open_trial.settings))
        settings = optimizer.ask()
        known = _known(settings, run) if open_trial is None else None
        if known is not None:
            repeated += 1
            optimizer.tell(known.value, outcome=known.outcome or "failed")
            continue
        repeated = 0
        number = open_trial.number if open_trial else len(trials_of(run.book.entries))
        if open_trial is None:
            run.book.append(Asked(trial=number, settings=tuple(settings.items())))
        if not _try(number, tuple(settings.items()), search, run, optimizer):
            break
    outcome = "complete" if _judged(run) >= search.trials or repeated else "time-budget"
    if run.book.state.ended != outcome:
        run.book.append(Ended(outcome=outcome))
    return trials_of(run.book.entries)


def _open_book(search: Search, run: Run) -> Optimizer:
    """The first entries of this session, and an optimizer that knows all earlier trials."""
    if not run.book.entries:
        run.book.append(
            SearchBegun(
                stack=search.stack,
                digest=run.digest,
                target={"aim": str(search.target.aim), "concurrency": search.target.concurrency},
                space=search.space,
                kitctl=__version__,
            )
        )
    if _judged(run) < search.trials:
        run.book.append(Session(kitctl=__version__))
    optimizer = Optimizer(
        search.space, more_is_better=search.target.more_is_better, seed=int(run.digest[:8], 16)
    )
    earlier = [trial for trial in trials_of(run.book.entries) if trial.outcome is not None]
    for trial in earlier:
        optimizer.remember(
            dict(trial.settings), trial.values, value=trial.value, outcome=trial.outcome or "failed"
        )
    if not trials_of(run.book.entries):
        optimizer.begin(dict(search.own))
    return optimizer


def _judged(run: Run) -> int:
    return sum(trial.outcome is not None for trial in trials_of(run.book.entries))


def _known(settings: Mapping[str, Scalar], run: Run) -> Trial | None:
    return next((t for t in trials_of(run.book.entries) if dict(t.settings) == dict(settings)), None)


def _try(number: int, settings: Settings, search: Search, run: Run, optimizer: Optimizer) -> bool:
    """Measure one trial and judge it. False: the time ran out before it could be judged."""
    arm = Arm(id=arm_name(number), stack=search.stack, settings=settings)
    visit = Visit(arm=arm, round=0, works=trial_works(number, search.target, search.repeats))
    shown: list[int] = []

    def loses() -> bool:
        values = _values(visit, search, run)
        if len(values) > len(shown) and len(values) < search.repeats:
            shown.append(len(values))
            return optimizer.is_losing(values)
        return False

    run.context.say(
        f"trial {number} ({_judged(run) + 1} of {search.trials}): "
        + " ".join(f"{path}={value}" for path, value in settings)
    )
    early: list[bool] = []

    def enough() -> bool:
        early.append(bool(early and early[-1]) or loses())
        return early[-1]

    mine = replace(run, visits=(visit,), enough=enough, told=lambda: None)
    visit_arm(visit, mine)
    values = _values(visit, search, run)
    reason = why_failed(visit.works, run.book.state, search.target)
    stopped = bool(early and early[-1])
    if reason is None and not stopped and len(values) < search.repeats:
        return False
    verdict = judged(number, values, wanted=search.repeats, reason=reason)
    run.book.append(verdict)
    optimizer.tell(verdict.value, outcome=verdict.outcome)
    best = best_of(trials_of(run.book.entries), search.target)
    shown_value = f"{verdict.value:.1f} {search.target.unit}" if verdict.value is not None else "no value"
    ahead = f"; best so far trial {best.number} with {best.value:.1f}" if best and best.value else ""
    run.context.say(f"trial {number}: {shown_value}, {verdict.outcome}{ahead}")
    return True


def _values(visit: Visit, search: Search, run: Run) -> list[float]:
    """The target's value of each repeat that is done, in order."""
    done = [run.book.state.done.get(work.key) for work in visit.works]
    values = [
        value_of(one.repeat, search.target) for one in done if one is not None and one.repeat is not None
    ]
    return [value for value in values if value is not None]
