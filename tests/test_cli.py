"""The door: text or JSON out, exit codes, pipes that close, and what never reaches the user as a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from kitctl_process import KIT, KitUser

from kitctl import __version__
from kitctl.cli import to_json


def test_python_dash_m_is_kitctl(kit_user: KitUser) -> None:
    assert kit_user.run("--version").stdout == f"kitctl {__version__}\n"


def test_stacks_json_is_a_contract(kit_user: KitUser) -> None:
    body = kit_user.json("stacks")
    assert set(body) == {"schema", "stacks", "broken"}
    assert body["schema"] == "kitctl.stacks/1"
    demo = next(stack for stack in body["stacks"] if stack["name"] == "cpu-demo")
    assert {
        "name", "summary", "model", "drafter", "parallel", "engine", "image", "serve", "expect", "environment",
        "archs", "gpus", "is_users",
    } <= set(demo)  # fmt: skip
    assert [stack["name"] for stack in body["stacks"]] == sorted(stack["name"] for stack in body["stacks"])
    assert body["broken"] == []


def test_a_broken_stack_hides_no_other(kit_user: KitUser) -> None:
    kit_user.write_config("stacks/mine.yaml", "summary: mine\nmodel: [\n")
    whole, told = kit_user.run("stacks"), json.loads(kit_user.run("stacks", "--json").stdout)
    assert whole.returncode == 2
    assert "cpu-demo" in whole.stdout
    assert "\nmine: broken: ~config/stacks/mine.yaml" in whole.stdout
    assert [(one["name"], one["code"], one["is_users"]) for one in told["broken"]] == [
        ("mine", "bad-yaml", True)
    ]
    listed = kit_user.run("models", "list")
    assert (listed.returncode, "kitctl/demo" in listed.stdout) == (0, True)
    assert listed.stderr == "stack mine is broken and counts for no model (bad-yaml): kitctl stacks\n"
    refused = kit_user.run("models", "rm", "kitctl/demo")
    assert (refused.returncode, "(bad-yaml)" in refused.stderr) == (2, True)


def test_plan_json_needs_no_engine(kit_user: KitUser) -> None:
    env = kit_user.env | {"DOCKER_HOST": "unix:///nowhere.sock"}
    done = kit_user.run("plan", "ep4-dflash", "--json", env=env)
    body = json.loads(done.stdout)
    assert (done.returncode, body["schema"], body["overlays"]) == (3, "kitctl.plan/1", ["pcie"])


def test_an_error_is_text_on_stderr_and_json_on_stdout(kit_user: KitUser) -> None:
    done = kit_user.run("plan", "cpu-dmo", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout) == {
        "schema": "kitctl.error/1",
        "code": "unknown-stack",
        "cause": "there is no stack named 'cpu-dmo'",
        "evidence": ["did you mean 'cpu-demo'?"],
        "remedy": "choose one that 'kitctl stacks' prints",
        "exit": 2,
    }
    assert done.stderr.splitlines() == [
        "kitctl: there is no stack named 'cpu-dmo' (unknown-stack)",
        "  seen: did you mean 'cpu-demo'?",
        "  do:   choose one that 'kitctl stacks' prints",
    ]


def test_json_after_the_dashes_is_the_engines(kit_user: KitUser) -> None:
    done = kit_user.run("plan", "cpu-dmo", "--", "--json")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plan", "cpu-demo", "--port", "99999"], "argument --port: '99999' is no port: 1 to 65535"),
        (["plan", "cpu-demo", "--port", "0"], "argument --port: '0' is no port: 1 to 65535"),
        (["plan", "cpu-demo", "--port=-4"], "argument --port: '-4' is no port: 1 to 65535"),
        (["plan", "cpu-demo", "--port", "80²"], "argument --port: '80²' is no port: 1 to 65535"),
        (["plan", "cpu-demo", "--bind", "localhost"],
         "argument --bind: 'localhost' is no IP address, as 127.0.0.1 or ::1"),
        (["up", "cpu-demo", "--timeout", "nan"], "argument --timeout: 'nan' is no number of seconds"),
        (["up", "cpu-demo", "--timeout=-1"], "argument --timeout: '-1' is no number of seconds"),
        (["logs", "cpu-demo", "--tail=-3"], "argument -n/--tail: '-3' is no count: 0 or more"),
        *[
            (["watch", "cpu-demo", f"--{option}={value}"],
             f"argument --{option}: '{value}' is no number of seconds: 0.001 to 2000000")
            for option in ("every", "patience", "gpus-every")
            for value in ("-1", "nan", "0", "inf", "1e9", "1e-300")
        ],
        (["bench", "--rate=nan"], "argument --rate: 'nan' is not a list of rates from 0.001 to 100000, as 0.5,2"),
        (["bench", "--rate=1,inf"], "'1,inf' is not a list of rates from 0.001 to 100000, as 0.5,2"),
        (["bench", "--rate=1e-300"], "'1e-300' is not a list of rates from 0.001 to 100000, as 0.5,2"),
        (["bench", "--requests=1,2"], "argument --requests: '1,2' is no whole number from 1 to 10000000"),
        (["bench", "--repeats=1001"], "argument --repeats: '1001' is no whole number from 1 to 1000"),
        (["bench", "--concurrency=1,99999999999"], "is not a list of whole numbers from 1 to 65536, as 1,8,32"),
        (["bench", "--timeout-s=inf"], "argument --timeout-s: 'inf' is no number of seconds"),
        (["bench", "--temperature=nan"], "argument --temperature: 'nan' is no temperature: 0 to 100"),
        (["bench", "--slo-ttft-ms=nan"], "argument --slo-ttft-ms: 'nan' is no number from 0.001 to 1000000000"),
        (["accept", "--min-length=nan"], "argument --min-length: 'nan' is no number from 0.001 to 1000000000"),
        (["doctor", "--timeout-scale=nan"], "'nan' is no factor: 0.001 to 1000"),
        (["up", "cpu-demo", "--auto-remedy=-1"], "argument --auto-remedy: '-1' is no count: 0 or more"),
        (["models", "verify", "--stall=nan"], "argument --stall: 'nan' is no number of seconds"),
        (["models", "pull", "--jobs=0"], "argument --jobs: '0' is no whole number from 1 to 10000000"),
        (["quality", "--min-score=nan"], "argument --min-score: 'nan' is no share: 0 to 1"),
        (["quality", "--min-score=5"], "argument --min-score: '5' is no share: 0 to 1"),
        (["quality", "--concurrency=65537"], "'65537' is no whole number from 1 to 65536"),
        (["tune", "cpu-demo", "--trials=3,4"], "argument --trials: '3,4' is no whole number from 1 to 10000000"),
        (["tune", "cpu-demo", "--at=3,4"], "argument --at: '3,4' is no whole number from 1 to 65536"),
        (["runs", "list", "--last=-1"], "argument --last: '-1' is no whole number from 1 to 10000000"),
        *[
            ([*words, ""], f"argument {named}: '' is empty: give a value, or leave it out")
            for named, words in (
                ("--against", ["quality", "cpu-demo", "--against"]),
                ("-o/--output", ["quality", "cpu-demo", "-o"]),
                ("--html", ["compare", "published", "--html"]),
                ("--with", ["accept", "cpu-demo", "--without", "f", "--with"]),
                ("--without", ["accept", "cpu-demo", "--with", "f", "--without"]),
                ("--dataset", ["quality", "cpu-demo", "--dataset"]),
                ("RESULT", ["compare", "published"]),
                ("STACK", ["bench"]),
                ("--kit", ["stacks", "new", "m", "--kit"]),
            )
        ],
        (["plan", "cpu-demo", "--nam", "x"], "kitctl plan: error: unrecognized arguments: --nam"),
        (["bench", "--conc", "1", "cpu-demo"], "kitctl bench: error: unrecognized arguments: --conc"),
        (["models", "list", "--jsn"], "kitctl models: error: unrecognized arguments: --jsn"),
        (["plam", "cpu-demo"], "argument COMMAND: invalid choice: 'plam'"),
        ([], "the following arguments are required: COMMAND"),
    ],
)  # fmt: skip
def test_wrong_usage_exits_2(kit_user: KitUser, words: list[str], said: str) -> None:
    done = kit_user.run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "words",
    [["--json", "-q", "overlays"], ["--kit", str(KIT), "--json", "overlays"], [f"--kit={KIT}", "overlays", "--json"]],
)  # fmt: skip
def test_common_options_may_stand_before_the_verb(kit_user: KitUser, words: list[str]) -> None:
    assert kit_user.run(*words).stdout == kit_user.run("overlays", "--json").stdout


def test_common_options_without_a_verb(kit_user: KitUser) -> None:
    done = kit_user.run("--json")
    assert (done.returncode, "required: COMMAND" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("variable", "value", "words", "said"),
    [
        ("KITCTL_PORT", "abc", ["plan", "cpu-demo"], "which --port refuses"),
        ("KITCTL_JSON", "maybe", ["stacks"], "which --json refuses"),
        ("KITCTL_TIMEOUT", "soon", ["up", "cpu-demo"], "which --timeout refuses"),
        ("KITCTL_AGAINST", "", ["quality", "cpu-demo"], "which --against refuses"),
        ("KITCTL_TO", "paper", ["render", "cpu-demo", "-o", "x"], "which --to refuses"),
    ],
)
def test_a_wrong_variable_is_named(
    kit_user: KitUser, variable: str, value: str, words: list[str], said: str
) -> None:
    done = kit_user.run(*words, env=kit_user.env | {variable: value})
    assert done.returncode == 2
    assert done.stderr.startswith(f"kitctl: the environment variable {variable} holds {value!r}, {said}")


def test_a_variable_is_the_options_default(kit_user: KitUser) -> None:
    env = kit_user.env | {"KITCTL_PORT": "4321", "KITCTL_JSON": "1", "KITCTL_SET": "engine.context_length=64"}
    body = json.loads(kit_user.run("plan", "cpu-demo", env=env).stdout)
    assert (body["published"]["port"], body["settings"]["engine"]["context_length"]) == (4321, 64)
    typed = json.loads(kit_user.run("plan", "cpu-demo", "--port", "5", env=env).stdout)
    assert typed["published"]["port"] == 5


def test_a_reader_that_goes_away_is_no_failure(kit_user: KitUser) -> None:
    argv = [sys.executable, "-m", "kitctl", "stacks", "--json"]
    process = subprocess.Popen(
        argv, env=kit_user.env, cwd=kit_user.home, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert (process.stderr.read(), process.wait()) == (b"", 0)
    process.stderr.close()


def test_closed_stderr_stops_no_work(kit_user: KitUser) -> None:
    done = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m kitctl stacks 2>&-"],
        env=kit_user.env, cwd=kit_user.home, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, "cpu-demo" in done.stdout) == (0, True)


def test_output_holds_no_terminal_codes(kit_user: KitUser) -> None:
    for env in (kit_user.env, kit_user.env | {"NO_COLOR": "1"}, kit_user.env | {"FORCE_COLOR": "1"}):
        done = kit_user.run("plan", "cpu-demo", env=env)
        assert "\x1b" not in done.stdout + done.stderr


def test_without_home_and_xdg(kit_user: KitUser, tmp_path: Path) -> None:
    env = {
        name: value for name, value in kit_user.env.items() if name != "HOME" and not name.startswith("XDG")
    }
    assert kit_user.run("stacks", env=env).returncode == 0


def test_in_another_locale_and_with_odd_names(kit_user: KitUser) -> None:
    kit_user.write_config(
        "stacks/größe.yaml", "summary: übermäßig\nmodel: kitctl/demo\nimage: {stage: cpu}\n"
    )
    for locale in ("C", "C.UTF-8", "POSIX"):
        done = kit_user.run("stacks", env=kit_user.env | {"LC_ALL": locale, "LANG": locale})
        assert (done.returncode, "übermäßig" in done.stdout) == (0, True), done.stderr


def test_another_projects_compose_file_changes_nothing(kit_user: KitUser) -> None:
    (kit_user.home / "docker-compose.yml").write_text("services: {x: {image: y}}\n")
    env = kit_user.env | {"COMPOSE_FILE": "/nowhere.yml", "COMPOSE_PROJECT_NAME": "other"}
    body = json.loads(kit_user.run("plan", "cpu-demo", "--json", env=env).stdout)
    assert body["project"] == "kitctl-cpu-demo"


def test_a_folder_that_is_no_kit(kit_user: KitUser) -> None:
    done = kit_user.run("stacks", "--kit", "/nowhere")
    assert (done.returncode, done.stderr.splitlines()) == (
        2,
        [
            "kitctl: there is no kit at /nowhere: no models.lock with a compose folder beside it (no-kit)",
            "  do:   name the kit's folder with --kit or KITCTL_KIT",
        ],
    )


def test_a_broken_file_of_the_kit_is_named(kit_user: KitUser, tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    (kit / "compose/stacks").mkdir(parents=True)
    (kit / "models.lock").write_text("")
    (kit / "compose/base.yaml").write_text("")
    (kit / "compose/stacks/bad.yaml").write_bytes(b"summary: \xff\xfe\n")
    done = kit_user.run("stacks", "--kit", str(kit))
    assert (done.returncode, "bad.yaml cannot be read" in done.stderr) == (2, True)


def test_nan_is_refused_in_json() -> None:
    with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
        to_json({"x": float("nan")})


@pytest.mark.parametrize(
    "moment",
    [
        "exec('raise KeyboardInterrupt')",
        """
class Field:
    def __set_name__(self, owner, name):
        raise KeyboardInterrupt
class Made:
    field = Field()
""",
        "raise RuntimeError from KeyboardInterrupt()",
    ],
    ids=["in-code-from-a-string", "while-a-class-is-made", "turned-into-another"],
)
def test_an_interrupt_ends_in_130_wherever_it_meets_an_import(
    kit_user: KitUser, tmp_path: Path, moment: str
) -> None:
    """As ``python -m kitctl`` runs it, of which CPython would make a death by SIGINT."""
    (tmp_path / "interrupted.py").write_text(moment)
    (tmp_path / "started.py").write_text(
        "import sys, kitctl.cli as cli\n"
        "cli.COMMANDS['stacks'] = cli.Command('interrupted', 'interrupted while it is imported')\n"
        "sys.exit(cli.main(['stacks', '--json']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "started"],
        env=kit_user.env | {"PYTHONPATH": f"{KIT}:{tmp_path}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
    assert json.loads(done.stdout)["exit"] == 130


def test_a_bug_leaves_a_report_and_no_traceback(kit_user: KitUser, tmp_path: Path) -> None:
    code = (
        "import sys, kitctl.cli as cli\n"
        "cli.COMMANDS['stacks'] = cli.Command('json', 'no command at all')\n"
        "sys.exit(cli.main(['stacks']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=kit_user.env, cwd=KIT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 70
    assert done.stderr.startswith("kitctl: this is a bug in kitctl; the report is ")
    report = Path(done.stderr.split()[-1])
    assert "Traceback" in report.read_text()
    assert str(kit_user.state) in str(report)
    env = kit_user.env | {"XDG_STATE_HOME": "/proc/nowhere"}
    again = subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=KIT, capture_output=True, text=True, check=False
    )
    assert again.returncode == 70
    assert os.path.basename(again.stderr.split()[-1]).startswith("kitctl-bug-")  # noqa: PTH119
