"""The schedule loads each stack as often as asked, measures every repeat once, and lets no stack go first always."""

from campaign.planted_journal import begun_of, small, visits_of
from hypothesis import given
from hypothesis import strategies as st

from kitctl.campaign.arms import expand_arms, setting_words
from kitctl.campaign.schedule import Kind, not_rehearsed, order_arms
from kitctl.kit.campaign import AcceptRuns, CampaignLoad, Only
from kitctl.kit.settings import read_setting

STACKS = ("a", "b", "c", "d")


@given(
    stacks=st.integers(1, 4),
    repeats=st.integers(1, 5),
    rounds=st.integers(1, 6),
    levels=st.lists(st.integers(1, 64), min_size=1, max_size=4, unique=True),
)
def test_every_repeat_is_measured_once(stacks: int, repeats: int, rounds: int, levels: list[int]) -> None:
    campaign = small(STACKS[:stacks], tuple(levels), repeats=repeats, rounds=rounds)
    visits = visits_of(begun_of(campaign, dict.fromkeys(STACKS, False)))
    keys = [work.key for visit in visits for work in visit.works]
    wanted = {
        f"{arm} bench kit C={level} #{repeat + 1}"
        for arm in STACKS[:stacks]
        for level in levels
        for repeat in range(repeats)
    }
    assert (len(keys), set(keys)) == (len(wanted), wanted)
    assert len(visits) == stacks * min(rounds, repeats)


def test_each_round_begins_with_another_stack() -> None:
    visits = visits_of(begun_of(small(STACKS, repeats=3, rounds=3), dict.fromkeys(STACKS, False)))
    firsts = [next(v.arm.id for v in visits if v.round == number) for number in range(3)]
    assert firsts == ["a", "b", "c"]


def test_stacks_of_the_same_image_and_model_are_neighbours() -> None:
    campaign = small(STACKS)
    arms = expand_arms(campaign, drafters=dict.fromkeys(STACKS, False))
    same = {"a": ("i", "m"), "b": ("i", "n"), "c": ("i", "m"), "d": ("i", "n")}
    assert [arm.id for arm in order_arms(campaign, arms, same)] == ["a", "c", "b", "d"]


def test_a_matrix_is_every_combination_and_drafter_settings_leave_plain_stacks_alone() -> None:
    campaign = small(matrix={"engine.graphs": ("on", "off"), "drafter.block_size": (4, 8)})
    arms = expand_arms(campaign, drafters={"plain": False, "drafted": True})
    assert [arm.id for arm in arms] == [
        "plain[graphs=on]",
        "plain[graphs=off]",
        "drafted[graphs=on,block_size=4]",
        "drafted[graphs=on,block_size=8]",
        "drafted[graphs=off,block_size=4]",
        "drafted[graphs=off,block_size=8]",
    ]


@given(
    value=st.one_of(st.integers(), st.booleans(), st.sampled_from(["on", "off", "4", "1.5", "true", "fa3"]))
)
def test_settings_are_read_back_as_they_were(value: object) -> None:
    ((_, read),) = [read_setting(word) for word in setting_words([("engine.x", value)])]  # type: ignore[list-item]
    assert (type(read), read) == (type(value), value)


def test_loads_for_plain_stacks_and_acceptance_for_drafters() -> None:
    loads = (
        CampaignLoad(dataset="random", concurrency=(1,), only=Only.PLAIN),
        CampaignLoad(concurrency=(1,)),
    )
    campaign = small(accept=AcceptRuns(concurrency=(1, 8)), repeats=1)
    campaign = type(campaign)(
        summary="s", stacks=campaign.stacks, loads=loads, accept=campaign.accept, repeats=1
    )
    visits = visits_of(begun_of(campaign, {"plain": False, "drafted": True}))
    assert [[work.key for work in visit.works] for visit in visits] == [
        ["plain bench random C=1 #1", "plain bench kit C=1 #1"],
        ["drafted accept C=1", "drafted accept C=8", "drafted bench kit C=1 #1"],
    ]


def test_a_rehearsal_measures_less_and_knows_what_it_leaves_out() -> None:
    campaign = small(concurrency=(1, 32))
    begun = begun_of(campaign, {"plain": False, "drafted": True}, rehearse=True)
    levels = {w.concurrency for v in visits_of(begun) for w in v.works if w.kind is Kind.BENCH}
    left = {(work.arm, work.concurrency) for work in not_rehearsed(campaign, begun.arms)}
    assert (levels, left) == ({1, 2}, {("plain", 32), ("drafted", 32)})
