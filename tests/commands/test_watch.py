"""kitctl watch: a line a change, a command run at each with the change as JSON, and an end with --once."""

import json
import re
import subprocess

import pytest
from kitctl_process import KitUser, docker
from stub.image import fault_image

pytestmark = pytest.mark.docker
STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture
def served(kit_user: KitUser) -> KitUser:
    """A user whose cpu-demo serves from the fault server."""
    assert kit_user.run(*kit_user.up("--image", fault_image())).returncode == 0
    return kit_user


def kill_when_ready(user: KitUser, *words: str) -> subprocess.CompletedProcess[str]:
    """``kitctl watch --once``; its container is killed once the first line has come."""
    named = ("cpu-demo", "--name", user.name, "--once", "--every", "1")
    run = user.start("watch", *named, *words)
    assert run.process.stdout is not None
    first = run.process.stdout.readline()  # ready
    docker("kill", user.containers()[0])
    out, err = run.process.communicate(timeout=60)
    return subprocess.CompletedProcess((), run.process.returncode, first + out, err)


def test_lines_for_a_person(served: KitUser) -> None:
    done = kill_when_ready(served)
    ready, crashed = done.stdout.splitlines()
    project = f"kitctl-cpu-demo--{served.name}"
    assert re.fullmatch(rf"{STAMP} {project} absent -> ready: answers", ready)
    assert re.fullmatch(
        rf"{STAMP} {project} ready -> crashed: ended with exit code 137; killed-from-outside: somebody killed "
        rf"the container through the container engine \(signal 9 at {STAMP}\)",
        crashed,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stack_that_is_not_up_is_told(kit_user: KitUser) -> None:
    done = kit_user.run("watch", "cpu-demo", "--name", kit_user.name, "--once")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"kitctl-cpu-demo--{kit_user.name} is not up\n"


def test_the_hook_gets_each_change_as_the_json_that_is_printed(served: KitUser) -> None:
    place = served.home / "changes"
    done = kill_when_ready(served, "--json", "--exec", f"/bin/sh -c 'cat >> {place}; echo >> {place}'")
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    assert [json.loads(line) for line in place.read_text().splitlines()] == printed
    assert [(change["before"], change["after"]) for change in printed] == [
        ("absent", "ready"),
        ("ready", "crashed"),
    ]
    assert set(printed[0]) == {"schema", "at", "project", "before", "after", "why", "diagnoses"}
    assert printed[1]["diagnoses"][0]["remedy"].startswith("see who else uses this engine")


def test_a_hook_that_fails_is_told_and_ends_nothing(served: KitUser) -> None:
    done = kill_when_ready(served, "--exec", "/bin/sh -c 'echo no mail today >&2; exit 3'")
    assert done.stderr.splitlines() == ["/bin/sh: no mail today"] * 2
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 2)
