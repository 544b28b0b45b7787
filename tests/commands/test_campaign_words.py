"""What is wrong with the words, the files or the order of campaign and tune is told before anything is started."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from campaign.planted_journal import begun_of, done_of, small, visits_of, written
from kitctl_process import KitUser

from kitctl.campaign.events import Begun, Event, Session
from kitctl.kit.campaign import read_campaign

CAMPAIGN = """\
summary: one stack
stacks: [ep4]
repeats: 2
loads: [{name: kit, dataset: kit, concurrency: [1], requests_per_stream: 5}]
rehearsal: {concurrency: [1], repeats: 2, output_tokens: 16}
"""


def plant(user: KitUser, name: str, events: list[Event]) -> Path:
    """A journal as an earlier session of the campaign left it."""
    journal = user.state / "campaigns" / name / "journal.jsonl"
    journal.parent.mkdir(parents=True)
    journal.write_bytes(written(events))
    return journal


def measured() -> list[Event]:
    """A campaign of one stack, all measured; the kit holds no stack of that name."""
    begun = begun_of(small(("gone",)), {"gone": False})
    works = [work for visit in visits_of(begun) for work in visit.works]
    return [begun, *(done(work, rate=100.0) for work in works)]


def done(work: Any, *, rate: float) -> Event:
    return done_of(work.key, work.arm, concurrency=work.concurrency or 1, repeat=work.repeat, rate=rate)


def test_adopt_of_a_campaign_that_was_killed_before_its_first_entry(kit_user: KitUser) -> None:
    plant(kit_user, "c", [])
    failure = kit_user.json("campaign", "adopt", "1", exit_code=2)
    assert (failure["code"], failure["cause"]) == ("no-campaign", "nothing of campaign c was written yet")
    assert kit_user.run("campaign", "status").stdout.startswith("c: nothing is written yet; ")


def test_adopt_of_a_load_that_is_none(kit_user: KitUser) -> None:
    plant(kit_user, "c", measured())
    failure = kit_user.json("campaign", "adopt", "1", "--load", "kti", exit_code=2)
    assert (failure["code"], failure["evidence"]) == (
        "unknown-load",
        ["did you mean 'kit'?", "its loads: kit"],
    )


def test_adopt_of_a_stack_that_is_gone(kit_user: KitUser) -> None:
    plant(kit_user, "c", measured())
    failure = kit_user.json("campaign", "adopt", "1", exit_code=2)
    assert (failure["code"], failure["cause"]) == (
        "unknown-stack",
        "the stack gone, which was measured, is gone",
    )


@pytest.mark.parametrize("verb", [("adopt", "1"), ("status",)])
def test_figures_that_nothing_measured_are_refused_here_too(kit_user: KitUser, verb: tuple[str, ...]) -> None:
    begun, first, *more = measured()
    spoilt = msgspec.structs.replace(first, repeat=msgspec.structs.replace(first.repeat, duration_s=-1.0))
    plant(kit_user, "c", [begun, spoilt, *more])
    failure = kit_user.json("campaign", *verb, exit_code=2)
    assert (failure["code"], "line 2: duration_s is -1.0" in failure["cause"]) == ("bad-result", True)


def test_to_go_on_and_to_begin_anew_exclude_each_other(kit_user: KitUser) -> None:
    assert kit_user.run("campaign", "run", "reference", "--resume", "--fresh").returncode == 2


@pytest.mark.docker
def test_a_campaign_of_prompts_that_are_not_there(kit_user: KitUser) -> None:
    path = kit_user.home / "c.yaml"
    path.write_text(CAMPAIGN.replace("dataset: kit", "dataset: nosuch.jsonl"))
    failure = kit_user.json("campaign", "run", str(path), "--rehearse", exit_code=2)
    assert (failure["code"], failure["cause"]) == (
        "file-unreadable",
        "nosuch.jsonl cannot be read: there is no such file",
    )
    assert not (kit_user.state / "campaigns").exists()


@pytest.mark.docker
def test_a_dry_run_of_a_campaign_that_was_interrupted_tells_what_is_left(kit_user: KitUser) -> None:
    path = kit_user.home / "c.yaml"
    path.write_text(CAMPAIGN)
    words = ("campaign", "run", str(path), "--rehearse", "--dry-run")
    whole = kit_user.json(*words)
    begun, works = begun_rehearsal(path)
    assert [key for visit in whole["visits"] for key in visit["works"]] == [work.key for work in works]
    plant(kit_user, "c-rehearsal", [begun, Session(kitctl="0"), done(works[0], rate=100.0)])
    left = kit_user.json(*words)
    assert [key for visit in left["visits"] for key in visit["works"]] == [work.key for work in works[1:]]
    assert left["done"] == [works[0].key]
    assert kit_user.json(*words, "--fresh")["visits"] == whole["visits"]


def begun_rehearsal(path: Path) -> tuple[Begun, list[Any]]:
    campaign = read_campaign(path.read_text(), source=str(path))
    begun = begun_of(campaign, {"ep4": False}, rehearse=True)
    return begun, [work for visit in visits_of(begun) for work in visit.works]


VARY = ("--vary", "engine.max_running_requests=4,8")


@pytest.mark.docker
@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (("--name", "../x"), "bad-name", 2),
        (("--adopt", "a/b"), "bad-name", 2),
        (("--adopt", "mine"), "stack-exists", 3),
        (("--adopt", "mine", "--replace", "--dataset", "nosuch.jsonl"), "file-unreadable", 2),
    ],
)
def test_a_search_that_could_not_end_well(
    kit_user: KitUser, words: tuple[str, ...], code: str, exit_code: int
) -> None:
    mine = kit_user.write_config(
        "stacks/mine.yaml", "summary: mine\nmodel: kitctl/demo\nimage: {stage: cpu}\n"
    )
    before = mine.read_text()
    failure = kit_user.json(
        "tune", "cpu-demo", *VARY, "--port", str(kit_user.port), *words, exit_code=exit_code
    )
    assert failure["code"] == code
    assert mine.read_text() == before
    assert not (kit_user.state / "searches").exists()
    assert kit_user.leftovers() == []
