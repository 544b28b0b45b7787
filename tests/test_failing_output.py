"""How a command that fails ends for a script: one JSON object on stdout, and a stdout that takes nothing is told."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from kitctl_process import KIT, KitUser


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "words",
    ["stacks", "stacks --json", "schema stack", "completion bash", "--help", "plan --help", "--version"],
)
def test_a_full_disk_behind_stdout_is_told(kit_user: KitUser, words: str, unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kitctl", *words.split()],
            env=kit_user.env | {"PYTHONUNBUFFERED": unbuffered},
            cwd=kit_user.home, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2, "kitctl: cannot write stdout: No space left on device (stdout-unwritable)",
    )  # fmt: skip
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


def test_an_error_whose_json_finds_no_room_is_told_as_ever(kit_user: KitUser) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kitctl", "plan", "cpu-dmo", "--json"],
            env=kit_user.env, cwd=kit_user.home, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    said = done.stderr.splitlines()
    assert (done.returncode, said[0]) == (2, "kitctl: there is no stack named 'cpu-dmo' (unknown-stack)")
    assert len(said) == 3


@pytest.mark.parametrize(
    ("words", "cause", "remedy"),
    [
        (["plan", "--json"], "the following arguments are required: STACK", "kitctl plan --help"),
        (["plan", "cpu-demo", "--port", "abc", "--json"], "argument --port: 'abc' is no port: 1 to 65535",
         "kitctl plan --help"),
        (["models", "lok", "--json"], "'lok'", "kitctl models --help"),
        (["--json"], "the following arguments are required: COMMAND", "kitctl --help"),
    ],
)  # fmt: skip
def test_wrong_usage_is_json_too(kit_user: KitUser, words: list[str], cause: str, remedy: str) -> None:
    done = kit_user.run(*words)
    told = json.loads(done.stdout)
    assert (done.returncode, told["exit"], told["schema"]) == (2, 2, "kitctl.error/1")
    assert (told["code"], told["remedy"]) == ("wrong-usage", remedy)
    assert cause in told["cause"] and cause in done.stderr.splitlines()[-1]


def test_json_asked_for_by_a_variable_counts_for_errors_too(kit_user: KitUser) -> None:
    done = kit_user.run("plan", "cpu-dmo", env=kit_user.env | {"KITCTL_JSON": "1"})
    assert (done.returncode, json.loads(done.stdout)["code"]) == (2, "unknown-stack")


def test_an_interrupt_is_json_too(kit_user: KitUser) -> None:
    code = (
        "import sys, types, kitctl.cli as cli\n"
        "def run(args, context):\n"
        "    raise KeyboardInterrupt\n"
        "sys.modules['slow'] = types.SimpleNamespace(run=run, add_arguments=lambda parser: None)\n"
        "cli.COMMANDS['stacks'] = cli.Command('slow', 'ends by Ctrl-C')\n"
        "sys.exit(cli.main(['stacks', '--json']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=kit_user.env, cwd=KIT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
    told = json.loads(done.stdout)
    assert (told["schema"], told["code"], told["exit"]) == ("kitctl.error/1", "interrupted", 130)


@pytest.mark.parametrize(
    "words", [["lint", "loop", "--json"], ["bundle", "verify", "loop", "--json"],
              ["render", "cpu-demo", "-o", "loop", "--json"]],
)  # fmt: skip
def test_a_link_in_a_circle_is_no_bug(kit_user: KitUser, words: list[str]) -> None:
    (kit_user.home / "loop").symlink_to("loop")
    done = kit_user.run(*words)
    told = json.loads(done.stdout)
    assert (done.returncode, told["code"]) == (2, "path-leads-nowhere")
    assert told["cause"].startswith("loop leads to no file or folder: ")


def test_a_bug_is_json_too(kit_user: KitUser) -> None:
    code = (
        "import sys, kitctl.cli as cli\n"
        "cli.COMMANDS['stacks'] = cli.Command('json', 'no command at all')\n"
        "sys.exit(cli.main(['stacks', '--json']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=kit_user.env, cwd=KIT, capture_output=True, text=True, check=False
    )
    told = json.loads(done.stdout)
    assert (done.returncode, told["schema"], told["code"], told["exit"]) == (
        70, "kitctl.error/1", "kitctl-bug", 70,
    )  # fmt: skip
    assert told["evidence"] == [f"the report is {done.stderr.split()[-1]}"]
