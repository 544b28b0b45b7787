"""The time left comes from what was measured, then from published rates, and says what was guessed."""

from campaign.planted_journal import begun_of, entries_of, measured, small, up_of, visits_of

from kitctl.bench.workload import LEAST_REQUESTS
from kitctl.campaign.forecast import LoadTime, duration_text, forecast, load_time, load_time_now, read_key
from kitctl.campaign.state import fold, open_visits
from kitctl.commands.campaign_check import published_rates

BEGUN = begun_of(small(("ep4", "tp8"), (1, 32)), {"ep4": False, "tp8": False})
LOADS = {name: LoadTime(seconds=255.0, by="the last load on this host") for name in ("ep4", "tp8")}


def test_published_rates_stand_for_what_was_never_measured() -> None:
    found = forecast(
        visits_of(BEGUN), campaign=BEGUN.campaign, state=fold([]), loads=LOADS, published=published_rates()
    )
    # C=1: the least requests of 256 tokens, C=32: 160; tok/s by the reference table; three repeats, one load each
    few = LEAST_REQUESTS * 256
    ep4, tp8 = 3 * (few / 69.0 + 160 * 256 / 658.5), 3 * (few / 97.9 + 160 * 256 / 683.9)
    assert (round(found.seconds), found.guessed) == (round(2 * 255 + ep4 + tp8), 0)


def test_without_a_published_rate_it_is_a_guess_and_says_so() -> None:
    found = forecast(visits_of(BEGUN), campaign=BEGUN.campaign, state=fold([]), loads=LOADS)
    assert found.guessed == 12


def test_measured_works_stand_for_those_like_them() -> None:
    events = measured(BEGUN, {(a, c): 50.0 for a in ("ep4", "tp8") for c in (1, 32)})[:8]
    state = fold(entries_of(events))
    left = open_visits(visits_of(BEGUN), state)
    found = forecast(left, campaign=BEGUN.campaign, state=state, loads=LOADS)
    works = sum(len(visit.works) for visit in left)
    assert (found.seconds, found.guessed) == (255.0 + 10.0 * works, 0)


def test_load_times_come_from_this_campaign_when_it_has_seen_one() -> None:
    by_plan = load_time(expected_s=1200.0, last_s=None)
    assert by_plan == LoadTime(seconds=1200.0, by="the plan's estimate")
    guessed = load_time(expected_s=None, last_s=None)
    assert guessed == LoadTime(seconds=900.0, by="a guess, for nothing like it was started here yet")
    state = fold(entries_of([BEGUN, up_of("ep4", seconds=300.0)]))
    assert load_time_now(by_plan, state=state, arm="ep4").by == "this campaign"
    assert load_time_now(by_plan, state=state, arm="tp8").seconds == 300.0
    assert load_time_now(guessed, state=state, arm="tp8").seconds == 300.0
    assert load_time_now(LOADS["tp8"], state=state, arm="tp8") == LOADS["tp8"]


def test_keys_are_read_back() -> None:
    keys = {(work.key, work.arm): work for visit in visits_of(BEGUN) for work in visit.works}
    for (key, arm), work in keys.items():
        assert read_key(key, arm) == ("bench", "kit", work.concurrency)
    assert read_key("x[a=1] accept C=8", "x[a=1]") == ("accept", None, 8)


def test_durations_in_words() -> None:
    assert [duration_text(s) for s in (45, 720, 22800)] == ["45 s", "12 min", "6 h 20 min"]
