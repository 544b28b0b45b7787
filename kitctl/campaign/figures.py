"""What did a campaign measure? The journal's repeats as result files, one an arm and load, like those of a bench."""

from __future__ import annotations

from collections.abc import Sequence

from kitctl.bench.acceptance import Acceptance, judge
from kitctl.bench.points import point_of
from kitctl.bench.results import Head, ResultFile, by_point
from kitctl.bench.speedup import SpeedModel, fit_speedup
from kitctl.bench.workload import Endpoint, spec_hash
from kitctl.campaign.arms import Arm, plain_arm
from kitctl.campaign.events import Done, Up
from kitctl.campaign.forecast import read_key
from kitctl.campaign.schedule import Kind
from kitctl.campaign.state import State
from kitctl.finding import blocking
from kitctl.kit.campaign import Campaign


def results_of(state: State, load: str) -> tuple[ResultFile, ...]:
    """The arms' results under one load, in the campaign's order; arms without a point are left out."""
    arms = state.begun.arms if state.begun else ()
    found = (result_of(state, arm, load) for arm in arms)
    return tuple(result for result in found if result is not None)


def result_of(state: State, arm: Arm, load: str) -> ResultFile | None:
    """One arm's points under a load; ``None`` without one."""
    mine = [
        done
        for done in state.done.values()
        if done.arm == arm.id and done.repeat is not None and read_key(done.work, arm.id)[1] == load
    ]
    if not mine or mine[0].spec is None:
        return None
    repeats = sorted((d.repeat for d in mine if d.repeat is not None), key=lambda r: r.repeat)
    spec, served = mine[0].spec, mine[0].served
    points = tuple(
        point_of(
            group, model=spec.model, served=served, is_chat=spec.endpoint is Endpoint.CHAT, goal=spec.goal
        )
        for group in by_point(repeats)
    )
    head = Head(
        label=arm.id,
        run_id=mine[0].run,
        started_at=state.begun_at,
        spec=spec,
        spec_hash=spec_hash(spec),
        served_models=served,
        run_record=_record(state.ups.get(arm.id, ())),
        source=f"campaign {state.begun.name}" if state.begun else None,
    )
    return ResultFile(head=head, points=points, repeats=tuple(repeats))


def _record(ups: Sequence[Up]) -> dict[str, object] | None:
    """What the report needs of the run record that the first start left."""
    first = next((up for up in ups if up.phases), None)
    if first is None:
        return None
    phases = [
        {"name": phase.name, "seconds": phase.seconds} for phase in first.phases if phase.name != "total"
    ]
    return {"id": first.run, "image_id": first.image_id, "phases": phases}


def acceptances_of(state: State) -> tuple[tuple[str, Acceptance], ...]:
    """Arm and acceptance of every acceptance run."""
    return tuple((done.arm, done.accept) for done in state.done.values() if done.accept is not None)


def first_acceptance(state: State, arm: str) -> Acceptance | None:
    """The acceptance of an arm at the lowest concurrency."""
    mine = [found for name, found in acceptances_of(state) if name == arm]
    return min(mine, key=lambda found: found.concurrency, default=None)


def parities_of(state: State) -> tuple[Done, ...]:
    """The comparisons of greedy answers."""
    return tuple(done for done in state.done.values() if done.parity is not None)


def broken_gates(state: State, campaign: Campaign) -> dict[str, str]:
    """Arms that must not be recommended, and why."""
    broken: dict[str, str] = {}
    for arm, ups in state.ups.items():
        doubts = [doubt for up in ups for doubt in up.doubts]
        if doubts:
            broken[arm] = f"its first answers are in doubt: {doubts[0]}"
    for arm, found in acceptances_of(state):
        wrong = blocking(judge(found, least=campaign.gates.accept_length_least))
        if campaign.gates.accept_length_least is not None and wrong:
            broken[arm] = wrong[0].cause
    for done in parities_of(state):
        if campaign.gates.parity and done.parity is not None and done.parity.verdict == "broken":
            broken[done.arm] = "the drafter changes greedy answers beyond the plain stack's own noise"
    return broken


def crossovers(state: State, campaign: Campaign, load: str) -> tuple[tuple[str, str, SpeedModel], ...]:
    """For each arm with a drafter and its plain arm: up to which concurrency speculation pays."""
    arms = state.begun.arms if state.begun else ()
    plain = campaign.parity.plain if campaign.parity else {}
    found = []
    for arm in arms:
        other = plain_arm(arm, arms, plain)
        accepted = first_acceptance(state, arm.id)
        if other is None or accepted is None:
            continue
        with_it, without = result_of(state, arm, load), result_of(state, other, load)
        if with_it is None or without is None:
            continue
        model = fit_speedup(without.points, with_it.points, tau=accepted.overall.accept_length)
        if model is not None:
            found.append((arm.id, other.id, model))
    return tuple(found)


def is_bench_of(key: str, arm: str, load: str, concurrency: int) -> bool:
    """Whether a work's key is a repeat of this point."""
    return key.startswith(f"{arm} ") and read_key(key, arm) == (str(Kind.BENCH), load, concurrency)
