"""The search finds a planted optimum in far fewer trials than there are settings, and stops arms that lose."""

import math
import random

import msgspec
import pytest
from campaign.planted_journal import done_of, entries_of

from kitctl.campaign.events import Asked, Judged, Reason
from kitctl.campaign.search import (
    Aim,
    Target,
    best_of,
    default_space,
    judged,
    own_settings,
    read_candidates,
    read_vary,
    search_digest,
    trial_lines,
    trial_works,
    trials_of,
    value_of,
    why_failed,
)
from kitctl.campaign.state import State
from kitctl.edge.kit_files import load_kit_texts
from kitctl.edge.optimizer import Optimizer
from kitctl.edge.package_data import package_text
from kitctl.errors import KitError
from kitctl.kit.campaign import CampaignLoad
from kitctl.kit.catalog import resolve_stack

SPACE = {"prefill": (512, 1024, 2048, 4096, 8192, 16384, 32768), "batch": (4, 8, 16, 32, 64, 128)}
BEST = {"prefill": 4096, "batch": 16}
TRIALS = 24
TEXTS = load_kit_texts(".")


def rate(settings: dict[str, object], noise: float) -> float:
    """A smooth surface with its top at BEST, and 3 % of noise."""
    far = [math.log2(float(str(settings[name])) / best) for name, best in BEST.items()]
    return 100 / (1 + 0.5 * far[0] ** 2 + 0.3 * far[1] ** 2) * noise


def finds_best(seed: int) -> bool:
    """Whether one search meets the planted best within TRIALS different settings, begun far from it."""
    optimizer, rng = Optimizer(SPACE, more_is_better=True, seed=seed), random.Random(seed)
    optimizer.begin({name: values[0] for name, values in SPACE.items()})
    seen: dict[tuple[object, ...], float] = {}
    while len(seen) < TRIALS:
        settings = optimizer.ask()
        key = tuple(settings.values())
        seen.setdefault(key, rate(dict(settings), rng.uniform(0.97, 1.03)))
        optimizer.tell(seen[key], outcome="complete")
        if settings == BEST:
            return True
    return False


def test_the_planted_best_of_42_settings_is_found_within_24_trials_in_nine_of_ten_searches() -> None:
    assert sum(finds_best(seed) for seed in range(20)) >= 18


def test_a_losing_arm_is_stopped_after_its_first_repeat_and_a_winning_one_is_not() -> None:
    optimizer = Optimizer({"x": (1, 2, 3, 4, 5, 6)}, more_is_better=True, seed=0)
    for x in (1, 2, 3, 4):
        optimizer.remember({"x": x}, [100.0 + x, 100.0 + x], value=100.0 + x, outcome="complete")
    optimizer.begin({"x": 5})
    optimizer.ask()
    assert optimizer.is_losing([50.0]) is True
    optimizer.tell(50.0, outcome="stopped")
    optimizer.begin({"x": 6})
    optimizer.ask()
    assert optimizer.is_losing([110.0]) is False


def test_a_resumed_search_knows_all_trials_and_the_open_one() -> None:
    events = [
        Asked(trial=0, settings=(("x", 1),)),
        judged(0, [10.0, 12.0], wanted=2, reason=None),
        Asked(trial=1, settings=(("x", 2),)),
        judged(1, [5.0], wanted=2, reason=None),
        Asked(trial=2, settings=(("x", 3),)),
    ]
    trials = trials_of(entries_of(events))
    assert [(t.number, t.outcome, t.value) for t in trials] == [
        (0, "complete", 11.0),
        (1, "stopped", 5.0),
        (2, None, None),
    ]
    assert isinstance(events[1], Judged)
    target = Target(aim=Aim.THROUGHPUT, concurrency=8)
    best = best_of(trials, target)
    assert best is not None and best.number == 0
    assert trial_lines(trials, target, {"x": 1}) == [
        "trial 0: 11.0 output tokens/s, complete: where the search began",
        "trial 1: 5.0 output tokens/s, stopped after 1 repeats: x=2",
        "trial 2: no value, None: x=3",
    ]


def test_the_kits_space_holds_what_means_something_for_a_stack() -> None:
    candidates = read_candidates(package_text("tune_space.yaml"))
    drafted = resolve_stack(TEXTS, "ep4-dflash").stack
    space = default_space(drafted, candidates, on_gpus=True)
    assert space["drafter.block_size"] == (2, 4, 6, 8)
    assert set(space) == {found.path for found in candidates}
    assert dict(own_settings(drafted, space))["engine.mem_fraction_static"] == 0.85
    plain = default_space(resolve_stack(TEXTS, "tp8-eager").stack, candidates, on_gpus=True)
    assert {"drafter.block_size", "engine.graph_max_bs"} & set(plain) == set()
    on_cpu = default_space(resolve_stack(TEXTS, "cpu-demo").stack, candidates, on_gpus=False)
    assert set(on_cpu) == {"engine.chunked_prefill_size", "engine.max_running_requests"}


def test_less_is_better_for_time_to_first_token() -> None:
    events = [
        Asked(trial=0, settings=(("x", 1),)),
        judged(0, [10.0], wanted=1, reason=None),
        Asked(trial=1, settings=(("x", 2),)),
        judged(1, [5.0], wanted=1, reason=None),
    ]
    best = best_of(trials_of(entries_of(events)), Target(aim=Aim.TTFT, concurrency=1))
    assert best is not None and best.number == 1


def test_vary_wants_two_values() -> None:
    assert read_vary(["engine.graphs=on,off", "a=1,2.5"]) == {"engine.graphs": ("on", "off"), "a": (1, 2.5)}
    with pytest.raises(KitError) as caught:
        read_vary(["a=1"])
    assert caught.value.cause == "--vary a=1: it must name a setting and at least two values"


def test_trials_under_another_load_are_another_search() -> None:
    stack, target = resolve_stack(TEXTS, "ep4").stack, Target(aim=Aim.THROUGHPUT, concurrency=8)
    loads = [
        CampaignLoad(concurrency=(8,), **more) for more in ({}, {"dataset": "random"}, {"output_tokens": 9})
    ]
    digests = {
        search_digest(stack, target, {"a": (1, 2)}, load=load, repeats=3, rehearse=False) for load in loads
    }
    assert len(digests) == len(loads)


TTFT = Target(aim=Aim.TTFT, concurrency=2)


def state_with(*errors: int) -> State:
    """A trial whose repeats had that many failed requests."""
    done = {}
    for work, failed in zip(trial_works(0, TTFT, len(errors)), errors, strict=True):
        event = done_of(work.key, work.arm, concurrency=2, repeat=work.repeat, rate=100.0)
        kinds = {"http-500": failed} if failed else {}
        repeat = msgspec.structs.replace(event.repeat, errors=failed, error_kinds=kinds)
        done[work.key] = msgspec.structs.replace(event, repeat=repeat)
    return State(done=done)


def test_a_trial_whose_requests_fail_is_a_failed_one_however_fast_the_others_were() -> None:
    works = trial_works(0, TTFT, 2)
    assert why_failed(works, state_with(0, 0), TTFT) is None
    state = state_with(0, 9)
    reason = why_failed(works, state, TTFT)
    assert reason is not None
    assert reason.cause == "a repeat cannot be judged: errors: 9 of 18 requests failed (http-500 x9)"
    values = [value_of(done.repeat, TTFT) for done in state.done.values() if done.repeat is not None]
    assert values == [5.0, None]
    assert judged(0, [5.0], wanted=2, reason=reason).outcome == "failed"


def test_a_trial_that_tells_nothing_of_the_target_is_a_failed_one() -> None:
    goodput = Target(aim=Aim.GOODPUT, concurrency=2)
    reason = why_failed(trial_works(0, goodput, 2), state_with(0, 0), goodput)
    assert reason is not None and reason.cause == "a repeat cannot be judged: it tells no good req/s"


def test_a_hole_is_the_reason_of_its_trial_and_an_open_work_is_none() -> None:
    works = trial_works(0, TTFT, 2)
    hole = Reason(code="oom", cause="no memory", remedy="")
    assert why_failed(works, State(holes={works[1].key: hole}), TTFT) is hole
    assert why_failed(works, State(), TTFT) is None
