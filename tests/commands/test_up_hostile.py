"""``kitctl up`` and its kin where the user's machine is odd: nothing half done, no traceback, a remedy each time."""

import json
import re
import shlex
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from kitctl_process import KitUser, docker

pytestmark = pytest.mark.docker


def up(user: KitUser, stub: str, *words: str, **more: object) -> subprocess.CompletedProcess[str]:
    return user.run(*user.up("--image", stub, *words), **more)


def down(user: KitUser) -> None:
    done = user.run("down", "cpu-demo", "--name", user.name)
    assert (done.returncode, user.leftovers()) == (0, [])


def test_compose_settings_of_the_shell_change_nothing(kit_user: KitUser, stub: str) -> None:
    (kit_user.home / "docker-compose.yml").write_text("services: {evil: {image: nosuch}}\n")
    env = kit_user.env | {
        "COMPOSE_FILE": "/nowhere.yml",
        "COMPOSE_PROJECT_NAME": "other",
        "COMPOSE_PROFILES": "x",
        "COMPOSE_ENV_FILES": "/nowhere.env",
        "COMPOSE_PATH_SEPARATOR": ";",
    }
    assert up(kit_user, stub, env=env).returncode == 0
    assert kit_user.containers() == [f"kitctl-cpu-demo--{kit_user.name}-engine-1"]
    done = kit_user.run("down", "cpu-demo", "--name", kit_user.name, env=env)
    assert (done.returncode, kit_user.leftovers()) == (0, [])


def test_the_rendered_folder_runs_without_kitctl(kit_user: KitUser, stub: str) -> None:
    """With the model and the image there, plain compose needs nothing but the folder."""
    assert up(kit_user, stub).returncode == 0
    down(kit_user)
    folder = kit_user.home / "rendered"
    done = kit_user.run("render", *kit_user.up("--image", stub)[1:], "-o", str(folder))
    assert done.returncode == 0, done.stderr
    kept = {"cwd": folder, "env": kit_user.env, "capture_output": True, "text": True, "check": False}
    try:
        started = subprocess.run(["docker", "compose", "up", "-d"], **kept)
        assert started.returncode == 0, started.stderr
        asked = f"http://127.0.0.1:{kit_user.port}/v1/models"
        deadline = time.monotonic() + 30
        while True:
            try:
                with urllib.request.urlopen(asked, timeout=2) as reply:
                    body = json.loads(reply.read())
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        assert [model["id"] for model in body["data"]] == ["demo"]
    finally:
        subprocess.run(["docker", "compose", "down"], **kept)
    assert kit_user.leftovers() == []


def test_another_plan_replaces_what_runs_when_asked(kit_user: KitUser, stub: str) -> None:
    assert up(kit_user, stub).returncode == 0
    refused = up(kit_user, stub, "--set", "environment.A=1")
    said = refused.stderr.splitlines()
    assert (refused.returncode, said[1]) == (3, "  seen: environment A: not set -> 1")
    own = shlex.join(kit_user.up("--image", stub, "--set", "environment.A=1", "--replace"))
    assert said[-1] == f"  do:   kitctl {own}, or another --name NAME and --port N to run both"
    replaced = up(kit_user, stub, "--set", "environment.A=1", "--replace")
    assert replaced.returncode == 0, replaced.stderr
    live = json.loads(docker("inspect", kit_user.containers()[0]))[0]
    assert "A=1" in live["Config"]["Env"]
    down(kit_user)


def test_boot_restarts_only_what_was_ready_once(kit_user: KitUser, stub: str) -> None:
    crash = ("--set", "environment.STUB_MODE=crash", "--set", "environment.STUB_AT=weights")
    done = up(kit_user, stub, "--boot", *crash)
    assert (done.returncode, kit_user.leftovers()) == (7, [])
    assert up(kit_user, stub, "--boot").returncode == 0
    live = json.loads(docker("inspect", kit_user.containers()[0]))[0]
    assert live["HostConfig"]["RestartPolicy"]["Name"] == "always"
    down(kit_user)


def test_state_that_cannot_be_written(kit_user: KitUser, stub: str) -> None:
    (kit_user.home / "state").write_text("a file where the folder should be")
    done = up(kit_user, stub)
    assert (done.returncode, done.stdout) == (2, "")
    assert "kitctl/locks" in done.stderr
    assert "(file-unwritable)" in done.stderr.splitlines()[0]
    assert kit_user.containers() == kit_user.networks() == []


def test_a_full_disk_while_it_starts_leaves_nothing(kit_user: KitUser, stub: str, tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], check=True)
    try:
        (place / "filler").write_bytes(b"x" * 240_000)
        env = kit_user.env | {"XDG_STATE_HOME": str(place)}
        done = up(kit_user, stub, env=env)
        assert (done.returncode, kit_user.leftovers()) == (2, []), done.stderr
        assert "No space left on device" in done.stderr
        assert "see that its disk has room" in done.stderr
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_broken_record_does_not_stop_a_stack(kit_user: KitUser, stub: str) -> None:
    assert up(kit_user, stub).returncode == 0
    record = next(kit_user.state.glob("runs/*/record.json"))
    for text in (b"", b"\xff\xfe", b"[]", b'{"schema": "kitctl.run/9"}'):
        record.write_bytes(text)
        status = kit_user.json("status", "cpu-demo", "--name", kit_user.name)
        assert (status["state"], status["drift"]) == ("running", ["no run record belongs to this container"])
        assert kit_user.json(*kit_user.up("--image", stub))["outcome"] == "already-up"
    assert kit_user.run("ps").returncode == 0
    down(kit_user)


def test_a_reader_that_leaves_does_not_take_the_stack_down(kit_user: KitUser, stub: str) -> None:
    running = kit_user.start(*kit_user.up("--image", stub))
    for pipe in (running.process.stdout, running.process.stderr):
        assert pipe is not None
        pipe.close()
    assert running.process.wait(timeout=60) == 0
    assert kit_user.json("status", "cpu-demo", "--name", kit_user.name)["healthy"] is True
    down(kit_user)


def test_down_of_the_wrong_copy_names_the_right_one(kit_user: KitUser, stub: str) -> None:
    assert up(kit_user, stub).returncode == 0
    done = kit_user.run("down", "cpu-demo", "--name", "other")
    assert (done.returncode, kit_user.containers() != []) == (0, True)
    assert done.stdout.startswith("cpu-demo is not up; ")
    assert f"cpu-demo --name {kit_user.name}" in done.stdout
    asked = kit_user.run("status", "cpu-demo", "--name", f"{kit_user.name}x")
    assert (asked.returncode, asked.stderr.splitlines()[1]) == (
        3, f"  seen: did you mean 'cpu-demo --name {kit_user.name}'?",
    )  # fmt: skip
    down(kit_user)


def test_down_of_a_misspelt_stack_is_refused_and_of_one_that_is_not_up_is_not(kit_user: KitUser) -> None:
    done = kit_user.run("down", "cpu-dmo", "--name", kit_user.name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[:2] == [
        "kitctl: there is no stack named 'cpu-dmo' (unknown-stack)",
        "  seen: did you mean 'cpu-demo'?",
    ]
    for known in ("cpu-demo", "CPU_Demo"):
        done = kit_user.run("down", known, "--name", kit_user.name)
        assert (done.returncode, done.stdout.startswith(f"{known} is not up")) == (0, True)


def test_a_lone_network_is_removed_by_down(kit_user: KitUser) -> None:
    project = f"kitctl-cpu-demo--{kit_user.name}"
    docker("network", "create", "--label", f"com.docker.compose.project={project}", f"{project}_default")
    down(kit_user)


def test_a_container_that_dies_later_is_told_and_started_anew(kit_user: KitUser, stub: str) -> None:
    assert up(kit_user, stub).returncode == 0
    docker("kill", kit_user.containers()[0])
    status = kit_user.json("status", "cpu-demo", "--name", kit_user.name, exit_code=7)
    assert (status["state"], status["exit_code"], status["healthy"]) == ("crashed", 137, False)
    waited = kit_user.run("wait", "cpu-demo", "--name", kit_user.name, "--timeout", "20")
    assert waited.returncode == 7
    again = kit_user.json(*kit_user.up("--image", stub))
    assert again["outcome"] == "ready"
    down(kit_user)


def test_a_wait_on_a_dead_stack_tells_what_its_phases_took(kit_user: KitUser, stub: str) -> None:
    """The log is read in one go then; what it tells was not done in no time."""
    slow = ("--set", "environment.STUB_STEP_S=0.4", "--replace")
    assert up(kit_user, stub, *slow).returncode == 0
    docker("kill", kit_user.containers()[0])
    waited = kit_user.run("wait", "cpu-demo", "--name", kit_user.name, "--timeout", "20")
    told = dict(re.findall(r"^  (\w+): ([\d.]+) s$", waited.stderr, re.MULTILINE))
    assert waited.returncode == 7
    assert {"started", "distributed", "weights"} <= set(told), waited.stderr
    assert all(float(seconds) >= 0.3 for seconds in told.values()), told
    down(kit_user)


def test_ipv6_loopback_and_odd_words(kit_user: KitUser, stub: str) -> None:
    words = ("--bind", "::1", "--", "--chat-template", "ünï ${HOME} $$ 'x' \"y\"", "--weight-version", "1e3")
    done = kit_user.run(*kit_user.up("--image", stub, "--json", *words))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["url"] == f"http://[::1]:{kit_user.port}"
    live = json.loads(docker("inspect", kit_user.containers()[0]))[0]
    assert live["Config"]["Cmd"] == said["plan"]["argv"]
    assert live["Config"]["Cmd"][-4:] == [
        "--chat-template",
        "ünï ${HOME} $$ 'x' \"y\"",
        "--weight-version",
        "1e3",
    ]
    down(kit_user)
