"""A campaign on real containers: it ends in one report, and a kill at any moment changes nothing in it."""

import json
import random
import signal
import time
from pathlib import Path

import pytest
from campaign.series import (
    SKIPPED,
    finish,
    plant,
    status,
    words,
    write_campaign,
    write_drafted_campaign,
)
from kitctl_process import KitUser, docker
from stub_speed.image import speed_image

pytestmark = pytest.mark.docker
KILLS = 5
REHEARSAL = """\
summary: two stacks of the reference case
stacks: [ep4, ep4-dflash]
loads: [{name: kit, dataset: kit, concurrency: [1, 256]}]
accept: {concurrency: [1]}
rehearsal: {concurrency: [1, 2], repeats: 1, output_tokens: 16}
"""


@pytest.fixture(scope="module")
def image() -> str:
    return speed_image()


def planted(user: KitUser, image: str) -> str:
    plant(user, image, "crowded", STUB_TOKEN_MS="4", STUB_CROWD="2")
    plant(user, image, "steady", STUB_TOKEN_MS="12")
    plant(user, image, "crash", STUB_CRASH="B41.log")
    return write_campaign(user, ["crowded", "crash", "steady"])


DONE = sorted(f"{arm} bench kit C={c} #{n}" for arm in ("crowded", "steady") for c in (1, 4) for n in (1, 2))
HOLES = sorted(f"crash bench kit C={c} #{n}" for c in (1, 4) for n in (1, 2))


def test_undisturbed_the_crashing_stack_is_a_reasoned_hole_and_the_rest_runs(
    kit_user: KitUser, image: str
) -> None:
    path = planted(kit_user, image)
    done = finish(kit_user, path)
    assert done.returncode == 0, done.stderr
    told = status(kit_user)
    assert (told["outcome"], told["done"], told["open"], told["doubles"]) == ("complete", DONE, [], [])
    assert sorted(told["holes"]) == HOLES
    assert {reason["code"] for reason in told["holes"].values()} == {"dflash-cuda-graph-crash"}
    cells = {(c["arm"], c["concurrency"]): c for c in told["report"]["tables"][0]["cells"]}
    assert cells["crash", 4]["reason"]["cause"].startswith("block drafting and CUDA graphs disagree")
    bands = [(band["first"], band["winner"]) for band in told["report"]["tables"][0]["recommendation"]]
    assert bands[0] == (1, "crowded")
    assert kit_user.leftovers() == []
    folder = kit_user.state / "campaigns" / kit_user.name
    assert json.loads((folder / "report.json").read_text())["schema"] == "kitctl.campaign/1"
    assert "Why cells are empty" in (folder / "report.html").read_text()
    compared = kit_user.run("compare", *map(str, sorted((folder / "results" / "kit").glob("*.jsonl"))))
    assert compared.returncode == 0, compared.stderr
    adopted = kit_user.json("campaign", "adopt", "1", "--as", "mine")
    assert "mine" in [stack["name"] for stack in kit_user.json("stacks")["stacks"]]
    assert f"# mine: adopted from campaign {kit_user.name}" in Path(adopted["file"]).read_text()


def test_a_complete_campaign_run_again_measures_nothing(kit_user: KitUser, image: str) -> None:
    plant(kit_user, image, "steady", STUB_TOKEN_MS="4")
    path = write_campaign(kit_user, ["steady"], repeats=1, levels="[1]")
    assert finish(kit_user, path).returncode == 0
    journal = kit_user.state / "campaigns" / kit_user.name / "journal.jsonl"
    before = journal.read_bytes()
    again = finish(kit_user, path)
    assert (again.returncode, journal.read_bytes() == before) == (0, True)


def entries(user: KitUser) -> int:
    """Whole lines in the journal."""
    journal = user.state / "campaigns" / user.name / "journal.jsonl"
    return journal.read_bytes().count(b"\n") if journal.is_file() else 0


def kill_after(user: KitUser, path: str, *, lines: int, pause_s: float) -> int:
    """Start the campaign, let its journal grow to ``lines``, and kill it ``pause_s`` later; entries it had by then."""
    run = user.start(*words(user, path, "--quiet"))
    while entries(user) < lines and run.process.poll() is None:
        time.sleep(0.1)
    time.sleep(pause_s)
    assert run.process.poll() is None, run.process.communicate()
    run.send(signal.SIGKILL)
    run.process.communicate()
    return entries(user)


def test_killed_at_five_random_moments_and_resumed_it_ends_as_if_undisturbed(
    kit_user: KitUser, image: str
) -> None:
    path = planted(kit_user, image)
    rng = random.Random()
    for lines in sorted(rng.sample(range(11), KILLS)):
        kill_after(kit_user, path, lines=max(lines, entries(kit_user)), pause_s=rng.random() * 1.5)
        half_written = kit_user.run("campaign", "status", kit_user.name)
        assert half_written.returncode in (0, 2)
    done = finish(kit_user, path)
    assert done.returncode == 0, done.stderr
    told = status(kit_user)
    assert (told["outcome"], told["done"], told["open"], told["doubles"]) == ("complete", DONE, [], [])
    assert sorted(told["holes"]) == HOLES
    assert kit_user.leftovers() == []


def test_a_stack_that_dies_under_load_is_started_again_and_only_that_point_is_a_hole(
    kit_user: KitUser, image: str
) -> None:
    plant(kit_user, image, "fragile", STUB_TOKEN_MS="4", STUB_DIES_AT="4")
    path = write_campaign(kit_user, ["fragile"], repeats=1, levels="[4, 1]")
    done = finish(kit_user, path)
    assert done.returncode == 0, done.stderr
    told = status(kit_user)
    assert told["done"] == ["fragile bench kit C=1 #1"]
    (hole,) = told["holes"].items()
    assert (hole[0], hole[1]["code"]) == ("fragile bench kit C=4 #1", "cuda-kernel-fault")
    starts = [start["outcome"] for start in told["report"]["starts"]]
    assert starts == ["ready", "ready", "ready"]


def test_nothing_runs_that_the_checks_refuse_and_the_reason_is_told_at_once(
    kit_user: KitUser, image: str
) -> None:
    path = write_campaign(kit_user, ["ep4"], repeats=1)
    done = kit_user.run(*words(kit_user, path, "--dry-run"))
    assert done.returncode == 3
    assert done.stdout.splitlines()[0].startswith("ep4: cannot run: this stack needs GPUs")
    done = finish(kit_user, path)
    assert done.returncode == 3
    assert {reason["code"] for reason in status(kit_user)["holes"].values()} == {"gpus-unknown"}


def test_another_campaign_under_the_same_name_is_refused(kit_user: KitUser, image: str) -> None:
    plant(kit_user, image, "steady", STUB_TOKEN_MS="4")
    path = write_campaign(kit_user, ["steady"], repeats=1, levels="[1]")
    assert finish(kit_user, path).returncode == 0
    write_campaign(kit_user, ["steady"], repeats=2, levels="[1]")
    done = finish(kit_user, path)
    assert (done.returncode, "(other-campaign)" in done.stderr) == (2, True)
    assert docker("ps", "-aq", "--filter", f"name={kit_user.name}") == ""


def test_acceptance_parity_and_crossover_stand_beside_the_table(kit_user: KitUser, image: str) -> None:
    path = write_drafted_campaign(kit_user, image)
    done = finish(kit_user, path, *(word for code in SKIPPED for word in ("--skip", code)))
    assert done.returncode == 0, done.stderr
    report = status(kit_user)["report"]
    accept, parity = report["answers"]
    assert round(accept["accept"]["overall"]["accept_length"], 2) == 3.0
    assert (parity["parity"]["verdict"], parity["parity"]["prompts"]) == ("equal", 4)
    ((drafted, plain, model),) = report["tables"][0]["crossovers"]
    assert (drafted, plain, round(model["tau"], 2), model["pays"]) == ("drafted", "steady", 3.0, "always")
    assert [band["winner"] for band in report["tables"][0]["recommendation"]] == ["drafted"]
    assert [arm["id"] for arm in report["arms"]] == ["steady", "drafted"]


def test_a_lost_terminal_ends_nothing_and_ctrl_c_leaves_nothing_behind(kit_user: KitUser, image: str) -> None:
    plant(kit_user, image, "steady", STUB_TOKEN_MS="12")
    path = write_campaign(kit_user, ["steady"], repeats=8, levels="[1, 4]")
    run = kit_user.start(*words(kit_user, path))
    run.wait_for("1 of 16 works done")
    run.send(signal.SIGHUP)
    run.wait_for("2 of 16 works done")
    running = status(kit_user)
    assert (running["running"], running["outcome"]) == (True, None)
    assert 2 <= len(running["done"]) < 16
    run.send(signal.SIGINT)
    assert run.end() == 130
    assert kit_user.leftovers() == []
    stopped = kit_user.run("campaign", "status", kit_user.name)
    assert stopped.stdout.splitlines()[0].startswith(f"{kit_user.name}: interrupted, last entry ")
    done = finish(kit_user, path, "--resume")
    assert done.returncode == 0, done.stderr
    told = status(kit_user)
    assert (told["outcome"], len(told["done"]), told["doubles"], told["sessions"]) == ("complete", 16, [], 2)


def test_spent_time_ends_it_and_a_larger_budget_goes_on(kit_user: KitUser, image: str) -> None:
    plant(kit_user, image, "steady", STUB_TOKEN_MS="4")
    path = write_campaign(kit_user, ["steady"], repeats=1, levels="[1]")
    text = Path(path).read_text()
    Path(path).write_text(text + "budget: {time_s: 0.5}\n")
    assert finish(kit_user, path).returncode == 9
    told = status(kit_user)
    assert (told["outcome"], told["done"], told["holes"]) == ("time-budget", [], {})
    assert kit_user.leftovers() == []
    Path(path).write_text(text + "budget: {time_s: 3600}\n")
    assert finish(kit_user, path).returncode == 0
    assert (status(kit_user)["outcome"], status(kit_user)["done"]) == (
        "complete",
        ["steady bench kit C=1 #1"],
    )


@pytest.mark.slow
def test_a_short_rehearsal_of_the_reference_case_on_the_real_engine(kit_user: KitUser) -> None:
    path = kit_user.home / f"{kit_user.name}.yaml"
    path.write_text(REHEARSAL)
    done = finish(kit_user, str(path), "--rehearse", timeout_s=1500)
    assert done.returncode == 0, done.stderr
    told = kit_user.json("campaign", "status", f"{kit_user.name}-rehearsal")
    assert (told["outcome"], told["open"], told["doubles"]) == ("complete", [], [])
    assert told["done"] == [f"{arm} bench kit C={c} #1" for arm in ("ep4", "ep4-dflash") for c in (1, 2)]
    assert {reason["code"] for reason in told["holes"].values()} == {"left-out"}
    cells = told["report"]["tables"][0]["cells"]
    reasons = {(c["arm"], c["concurrency"]): c["reason"]["code"] for c in cells if c["reason"]}
    assert reasons == {("ep4", 256): "not-rehearsed", ("ep4-dflash", 256): "not-rehearsed"}
    assert kit_user.leftovers() == []
