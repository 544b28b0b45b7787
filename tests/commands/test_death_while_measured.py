"""A stack that dies while it is measured: what killed it is told, in place of a server that does not answer."""

import json
from pathlib import Path

import pytest
from campaign.series import plant
from kitctl_process import KitUser, docker
from stub_speed.image import speed_image

pytestmark = pytest.mark.docker
LOAD = (
    "--concurrency",
    "1,4,6",
    "--repeats",
    "1",
    "--requests",
    "2",
    "--output-tokens",
    "8",
    "--ramp-s",
    "0",
)


def up(user: KitUser, **environment: str) -> None:
    plant(user, speed_image(), "planted", **({"STUB_TOKEN_MS": "4"} | environment))
    done = user.run(*user.up(stack="planted"))
    assert done.returncode == 0, done.stderr


def test_bench_names_what_ended_the_stack_and_keeps_what_was_whole(kit_user: KitUser, tmp_path: Path) -> None:
    up(kit_user, STUB_DIES_AT="3")
    file = tmp_path / "points.jsonl"
    done = kit_user.run("bench", "planted", "--name", kit_user.name, *LOAD, "-o", str(file))
    assert (done.returncode, done.stdout) == (7, ""), done.stderr
    assert f"planted --name {kit_user.name} died while it was measured: " in done.stderr
    assert "nothing answers" not in done.stderr
    kept = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["concurrency"] for row in kept if "repeat" in row][:1] == [1]


@pytest.mark.parametrize("verb", ["bench", "accept", "quality"])
def test_a_stack_that_was_killed_before(verb: str, kit_user: KitUser) -> None:
    up(kit_user)
    docker("kill", *kit_user.containers())
    failed = kit_user.json(verb, "planted", "--name", kit_user.name, exit_code=7)
    assert (failed["code"], failed["exit"]) == ("killed-from-outside", 7)
    assert failed["cause"].startswith(f"planted --name {kit_user.name} is not running: ")


@pytest.mark.parametrize("verb", ["accept", "quality"])
def test_a_stack_that_dies_in_the_middle_of_the_questions(verb: str, kit_user: KitUser) -> None:
    up(kit_user, STUB_DIES_AT="6", STUB_ACCEPT="3")
    more = ("--concurrency", "1,6") if verb == "accept" else ("--concurrency", "6")
    failed = kit_user.json(
        verb, "planted", "--name", kit_user.name, *more, "--output-tokens", "8", exit_code=7
    )
    assert failed["cause"].startswith(f"planted --name {kit_user.name} died while it was measured: ")


def test_a_stack_that_was_removed_before(kit_user: KitUser) -> None:
    up(kit_user)
    docker("rm", "-f", *kit_user.containers())
    done = kit_user.run("bench", "planted", "--name", kit_user.name, *LOAD)
    assert f"planted --name {kit_user.name} is not running: " in done.stderr
    assert done.returncode in (3, 7)


def test_a_server_of_another_kind_that_is_away_stays_what_it_was(kit_user: KitUser) -> None:
    url = f"http://127.0.0.1:{kit_user.port}"
    assert kit_user.json("bench", "--url", url, exit_code=10)["code"] == "server-unreachable"


def test_a_copy_that_was_taken_down_meanwhile(kit_user: KitUser) -> None:
    up(kit_user, STUB_TOKEN_MS="20")
    name = ("--name", kit_user.name)
    running = kit_user.start("bench", "planted", *name, *LOAD, "--requests", "200", "-o", "points.jsonl")
    running.wait_for("results go to points.jsonl")
    assert kit_user.run("down", "planted", *name).returncode == 0
    assert running.end() == 7
    assert f"kitctl up planted --name {kit_user.name}, then the same command again" in running.said
    assert "(bench: with --resume)" in running.said
