"""What setup would do on each kind of host: case files hold facts and offers, gold files what a person reads."""

import json
from pathlib import Path

import msgspec
import pytest

from kitctl.edge.package_data import package_text
from kitctl.errors import Exit
from kitctl.host.setup_facts import Offers, SetupFacts
from kitctl.host.setup_plan import plan_setup, wants_offers
from kitctl.host.setup_recipe import Recipe, Way, read_recipe
from kitctl.host.setup_refusals import exit_of
from kitctl.host.setup_report import plan_lines, setup_data
from kitctl.host.setup_sources import are_settled, wanted_packages, what_is_missing
from kitctl.host.setup_steps import SetupPlan, StartDaemon, UnpackWheel

CASES = Path(__file__).parent / "setup_cases"
NAMES = sorted(path.stem for path in CASES.glob("*.json"))
CACHE = "/root/.cache/kitctl/setup"


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    about: str
    facts: SetupFacts
    offers: Offers


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return read_recipe(package_text("setup.toml"))


def case_of(name: str) -> Case:
    return msgspec.json.decode((CASES / f"{name}.json").read_text(), type=Case)


def planned(name: str, recipe: Recipe) -> SetupPlan:
    case = case_of(name)
    return plan_setup(case.facts, recipe, case.offers, CACHE)


@pytest.mark.parametrize("name", NAMES)
def test_case_reads_as_its_gold_file(name: str, recipe: Recipe, accept: bool) -> None:
    case, plan = case_of(name), planned(name, recipe)
    lines = [f"# {case.about}", *(plan_lines(case.facts, plan) or ("nothing to do",))]
    actual = "\n".join(lines) + "\n"
    gold = CASES / f"{name}.txt"
    if accept:
        gold.write_text(actual)
    if not gold.exists() or gold.read_text() != actual:
        (CASES / f"{name}.actual").write_text(actual)
    assert actual == (gold.read_text() if gold.exists() else "")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("debian-12-bare", Exit.REFUSED),
        ("debian-12-denied", Exit.UNREACHABLE),
        ("debian-12-elsewhere", Exit.UNREACHABLE),
        ("debian-12-silent", Exit.UNREACHABLE),
        ("debian-12-old-engine", Exit.REFUSED),
        ("fedora-bare", Exit.REFUSED),
    ],
)
def test_exit_code_tells_an_engine_out_of_reach_from_a_refusal(name: str, code: Exit, recipe: Recipe) -> None:
    assert exit_of(planned(name, recipe).findings) is code


def test_a_complete_host_has_no_step_finding_or_note(recipe: Recipe) -> None:
    assert planned("debian-12-complete", recipe) == SetupPlan()
    assert planned("fedora-complete", recipe) == SetupPlan()


def test_a_second_run_after_all_steps_does_only_what_is_left(recipe: Recipe) -> None:
    """Each unpacked package is never fetched again."""
    case = case_of("debian-12-bare")
    unpacked = tuple(f"{one.package}_{one.version}" for one in case.offers.packages)
    facts = msgspec.structs.replace(case.facts, unpacked=unpacked)
    names = [step.name for step in plan_setup(facts, recipe, Offers(), CACHE).steps]
    assert [name for name in names if name.startswith("unpack")] == []


def test_the_engine_is_started_with_its_own_pidfile_and_finds_its_helpers(recipe: Recipe) -> None:
    (start,) = [
        a for s in planned("debian-12-bare", recipe).steps for a in s.actions if isinstance(a, StartDaemon)
    ]
    packages = "/opt/kitctl/packages"
    assert start.argv == (
        f"{packages}/docker.io_28.5.2+dfsg4-5/usr/sbin/dockerd",
        "--pidfile",
        "/run/kitctl-engine.pid",
    )
    assert start.path.split(":")[:4] == [
        "/opt/kitctl/bin",
        f"{packages}/docker.io_28.5.2+dfsg4-5/usr/bin",
        f"{packages}/docker.io_28.5.2+dfsg4-5/usr/sbin",
        f"{packages}/containerd_2.1.9+ds1-5/usr/bin",
    ]


def test_the_wheel_carries_the_hash_of_this_processor(recipe: Recipe) -> None:
    case = case_of("debian-12-bare")
    facts = msgspec.structs.replace(case.facts, architecture="arm64")
    plan = plan_setup(facts, recipe, case.offers, CACHE)
    (wheel,) = [a for step in plan.steps for a in step.actions if isinstance(a, UnpackWheel)]
    assert wheel.sha256 == recipe.compose.sha256["arm64"]


def test_json_names_each_step_with_its_commands(recipe: Recipe) -> None:
    case, plan = case_of("debian-12-rebooted"), planned("debian-12-rebooted", recipe)
    data = setup_data(case.facts, recipe, plan)
    assert json.loads(json.dumps(data)) == data
    assert (data["schema"], data["nothing_to_do"], data["engine"]) == ("kitctl.setup/1", False, None)
    assert [(sorted(step), step["seconds"]) for step in data["steps"]] == [
        (["commands", "name", "reason", "seconds", "source"], None)
    ]


def test_every_distribution_is_whole(recipe: Recipe) -> None:
    """A release that unpacks names its suites and keyring, and every release has a table of needs."""
    for one in recipe.distribution:
        assert one.needs in recipe.needs
        assert (one.way is Way.UNPACK) == bool(one.suites and one.keyring), one.name
    assert [len(value) for value in recipe.compose.sha256.values()] == [64, 64]


@pytest.mark.parametrize(
    ("name", "asks"),
    [
        ("debian-12-bare", True),
        ("debian-12-no-root", True),
        ("debian-12-complete", False),
        ("debian-12-rebooted", False),
        ("debian-12-elsewhere", False),
        ("debian-12-denied", False),
        ("ubuntu-24.04-bare", False),
    ],
)
def test_later_suites_are_asked_only_where_their_answer_counts(name: str, asks: bool, recipe: Recipe) -> None:
    facts = case_of(name).facts
    wanted = wanted_packages(facts, recipe, what_is_missing(facts, recipe))
    settled = are_settled(wanted, facts, ())
    assert (wants_offers(facts, recipe) and not settled) is asks
