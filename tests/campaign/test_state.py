"""What a resumed campaign does is what the interrupted one had not done: nothing double, nothing missing."""

import random

from campaign.planted_journal import (
    begun_of,
    done_of,
    entries_of,
    measured,
    small,
    up_of,
    visits_of,
    with_parity,
)
from hypothesis import given
from hypothesis import strategies as st

from kitctl.campaign.events import Ended, Event, Hole, Lost, Reason, Reopened, Session
from kitctl.campaign.state import fold, open_visits

BEGUN = begun_of(small(repeats=2), {"plain": False, "drafted": True})
RATES = {(arm, c): 100.0 * c for arm in ("plain", "drafted") for c in (1, 8)}
ALL = [work.key for visit in visits_of(BEGUN) for work in visit.works]
REASON = Reason(code="x", cause="it broke")


def run_from(events: list[Event], rng: random.Random) -> list[Event]:
    """A session: it goes on where the journal ends, and is killed after some works."""
    state = fold(entries_of(events))
    added: list[Event] = [Session(kitctl="0")]
    for visit in open_visits(visits_of(BEGUN), state):
        added.append(up_of(visit.arm.id))
        for work in visit.works:
            if rng.random() < 0.25:
                return [*events, *added]
            rate = RATES[work.arm, work.concurrency or 1]
            assert work.concurrency is not None
            added.append(
                done_of(work.key, work.arm, concurrency=work.concurrency, repeat=work.repeat, rate=rate)
            )
    return [*events, *added, Ended(outcome="complete")]


@given(seed=st.integers(0, 10_000))
def test_however_often_it_is_killed_every_work_is_done_once(seed: int) -> None:
    rng = random.Random(seed)
    events: list[Event] = [BEGUN]
    for _ in range(200):
        events = run_from(events, rng)
        if isinstance(events[-1], Ended):
            break
    state = fold(entries_of(events))
    assert (sorted(state.done), state.doubles, state.ended) == (sorted(ALL), (), "complete")


def test_a_work_done_twice_is_told_and_counts_once() -> None:
    (first, *_) = measured(BEGUN, RATES)[2:3]
    state = fold(entries_of([BEGUN, first, first]))
    assert (len(state.done), state.doubles) == (1, (first.work,))  # type: ignore[union-attr]


def test_a_lost_work_is_open_until_it_is_a_hole() -> None:
    key = ALL[0]
    lost = Lost(work=key, arm="plain", reason=REASON)
    state = fold(entries_of([BEGUN, lost]))
    assert open_visits(visits_of(BEGUN), state)[0].works[0].key == key
    state = fold(entries_of([BEGUN, lost, Hole(works=(key,), reason=REASON)]))
    assert key not in [w.key for v in open_visits(visits_of(BEGUN), state) for w in v.works]


def test_a_hole_never_hides_what_was_measured() -> None:
    events = measured(BEGUN, RATES)
    state = fold(entries_of([*events, Hole(works=tuple(ALL), reason=REASON)]))
    assert (state.holes, len(state.done)) == ({}, len(ALL))


def test_reopened_holes_are_tried_again() -> None:
    state = fold(
        entries_of([BEGUN, Hole(works=tuple(ALL), reason=REASON), Ended(outcome="complete"), Reopened()])
    )
    assert (len(open_visits(visits_of(BEGUN), state)), state.ended) == (2, None)


def test_pauses_between_sessions_are_not_worked_time() -> None:
    events = [BEGUN, Session(kitctl="0"), up_of("plain"), Session(kitctl="0"), up_of("plain")]
    assert fold(entries_of(events, every_s=100)).active_s == 200


def test_remedied_settings_are_kept_for_later_visits() -> None:
    state = fold(entries_of([BEGUN, up_of("plain", settings=("engine.graphs=off",))]))
    assert state.settings == {"plain": ("engine.graphs=off",)}


def test_answers_come_before_what_is_compared_with_them() -> None:
    begun = begun_of(with_parity(stacks=("drafted", "plain")), {"plain": False, "drafted": True})
    assert [arm.id for arm in begun.arms] == ["plain", "drafted"]
    works = {work.key: work for visit in visits_of(begun) for work in visit.works}
    assert works["drafted parity"].needs == "plain answers"
