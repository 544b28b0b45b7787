"""The whole life of cpu-demo on the real engine, as a user and an OpenAI client see it."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from kitctl_process import KIT, KitUser, docker, new_user
from openai import OpenAI

pytestmark = [pytest.mark.docker, pytest.mark.slow]
SENTENCE = "Yes: the engine is up, and this sentence was made by it."
ASKED: Any = [{"role": "user", "content": "Does this stack answer?"}]
QUALITY = KIT / "kitctl" / "data" / "quality"
START_S = 900.0


@dataclass(frozen=True, kw_only=True)
class Served:
    """A stack that ``kitctl up`` brought up: who runs it, what was said, what was printed."""

    user: KitUser
    said: list[str]
    printed: dict[str, Any]

    @property
    def words(self) -> tuple[str, str, str]:
        """What names the stack to other verbs."""
        return ("cpu-demo", "--name", self.user.name)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """cpu-demo, up. The first time on a machine this builds the image."""
    with new_user(tmp_path_factory.mktemp("life")) as user:
        done = user.run(*user.up("--json"), timeout_s=START_S)
        assert done.returncode == 0, done.stderr + done.stdout
        yield Served(user=user, said=done.stderr.splitlines(), printed=json.loads(done.stdout))


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{served.printed['url']}/v1", api_key="none", max_retries=0) as opened:
        yield opened


def test_each_phase_is_said_with_its_time(served: Served) -> None:
    told = [line for line in served.said if re.fullmatch(r" *[a-z_ -]+: \d+\.\d s", line)]
    names = [line.strip().partition(":")[0] for line in told]
    wanted = ["image", "model", "start", "started", "distributed", "weights", "kv_cache"]
    assert [name for name in names if name in wanted] == wanted
    recorded = [phase["name"] for phase in served.printed["phases"]]
    assert [name for name in recorded if name in wanted] == wanted
    assert recorded[-1] == "total"


LOOK_INSIDE = """
import json, os, pathlib
status = dict(line.split(":", 1) for line in pathlib.Path("/proc/1/status").read_text().splitlines())
places = [line.split()[4] for line in open("/proc/self/mountinfo") if line.split()[5].startswith("rw")]
kernel = ("/proc", "/sys", "/dev")  # and the memory that /dev/shm and /dev/mqueue are
def may_write(folder):
    try:
        pathlib.Path(folder, "kitctl-test").touch()
        os.unlink(f"{folder}/kitctl-test")
        return True
    except OSError:
        return False
tried = [*places, "/", "/opt/engine", "/usr/lib", "/etc", "/home", "/var/tmp", "/run", "/models", "/root"]
print(json.dumps({
    "uid": os.getuid(),
    "caps": [status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "no_new_privs": status["NoNewPrivs"].strip(), "seccomp": status["Seccomp"].strip(),
    "writable": sorted({p for p in tried if not p.startswith(kernel) and may_write(p)}),
    "sockets": [str(p) for p in pathlib.Path("/").glob("*run/docker.sock")] + [
        str(p) for p in pathlib.Path("/var/run").glob("docker*")],
}))
"""


def test_the_container_is_locked_down_and_may_write_in_named_places_alone(served: Served) -> None:
    """Seen from inside the live engine: no right, no way to get one, Docker's own seccomp filter."""
    (name,) = served.user.containers()
    seen = json.loads(docker("exec", name, "python", "-c", LOOK_INSIDE))
    assert seen == {
        "uid": 10001,
        "caps": ["0000000000000000"] * 5,
        "no_new_privs": "1",
        "seccomp": "2",
        "writable": ["/cache", "/tmp"],
        "sockets": [],
    }
    config = json.loads(docker("inspect", name))[0]["HostConfig"]
    assert (config["ReadonlyRootfs"], config["CapDrop"], config["CapAdd"]) == (True, ["ALL"], None)
    assert (config["SecurityOpt"], config["Privileged"]) == (["no-new-privileges:true"], False)


BIND_MEMORY = """
import ctypes
system = ctypes.CDLL(None, use_errno=True)
print(system.syscall(238, 1, ctypes.byref(ctypes.c_ulong(1)), 64))  # set_mempolicy(MPOL_PREFERRED, node 0), x86-64
"""


def test_memory_is_bound_to_a_numa_node_with_the_add_on_alone(served: Served) -> None:
    """Docker's seccomp filter refuses set_mempolicy; what the add-on gives lets it pass for the engine's user."""
    overlay = yaml.safe_load((KIT / "compose" / "overlays" / "numa.yaml").read_text())
    given = [f"--cap-add={cap}" for cap in overlay["services"]["engine"]["cap_add"]]
    locked = ["--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges"]
    words = ["run", "--rm", *locked, "--entrypoint=python"]
    (name,) = served.user.containers()
    image = json.loads(docker("inspect", name))[0]["Image"]
    assert docker(*words, image, "-c", BIND_MEMORY) == "-1"
    assert docker(*words, *given, image, "-c", BIND_MEMORY) == "0"


def test_up_prints_where_and_as_what_it_answers(served: Served) -> None:
    printed = served.printed
    assert (printed["schema"], printed["outcome"], printed["model"]) == ("kitctl.up/1", "ready", "demo")
    assert printed["url"] == f"http://127.0.0.1:{served.user.port}"
    assert printed["answer"] == SENTENCE


def test_openai_client_lists_the_model(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["demo"]


def test_openai_client_gets_a_chat_completion(client: OpenAI) -> None:
    said = client.chat.completions.create(model="demo", messages=ASKED, max_tokens=96, temperature=0)
    assert said.choices[0].message.content == SENTENCE
    assert said.choices[0].finish_reason == "stop"


def test_openai_client_gets_a_stream_with_usage(client: OpenAI) -> None:
    options: Any = {"include_usage": True}
    chunks = list(
        client.chat.completions.create(
            model="demo", messages=ASKED, max_tokens=96, temperature=0, stream=True, stream_options=options
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    usage = chunks[-1].usage
    assert (text, usage is not None and usage.completion_tokens) == (SENTENCE, len(SENTENCE) + 1)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is 17 + 25?", "17 + 25 = 42."),
        ("What is 61 - 19?", "61 - 19 = 42."),
        ("Close ([{", "([{}])"),
        ("Repeat: stack plan host", "stack plan host."),
        ("Reverse overlay", "overlay backwards is yalrevo."),
        ("Count to ten.", "one, two, three, four, five, six, seven, eight, nine, ten."),
    ],
)
def test_the_demo_model_knows_its_world(client: OpenAI, question: str, answer: str) -> None:
    messages: Any = [{"role": "user", "content": question}]
    said = client.chat.completions.create(model="demo", messages=messages, max_tokens=96, temperature=0)
    assert said.choices[0].message.content == answer


def test_quality_scores_the_demo_model_high_and_what_is_wrong_low(served: Served) -> None:
    """All 66 were right on 2026-11-30; 18 of them at temperature 2."""
    words = ("quality", *served.words, "--dataset", "demo")
    good = served.user.json(*words, "--min-score", "0.95")
    assert good["score"]["correct"] >= 63
    short = ("--output-tokens", "96", "--temperature", "2")
    wild = served.user.json(*words, *short, "--min-score", "0.6", exit_code=9)
    assert (wild["temperature"], wild["score"]["share"] < 0.6) == (2.0, True)
    rows = [json.loads(line) for line in (QUALITY / "demo.jsonl").read_text().splitlines()]
    shifted = zip(rows, [*rows[1:], rows[0]], strict=True)
    broken = served.user.home / "broken.jsonl"
    broken.write_text("".join(f"{json.dumps(row | {'answer': other['answer']})}\n" for row, other in shifted))
    words = ("quality", *served.words, "--dataset", str(broken), "--output-tokens", "96")
    assert served.user.json(*words, "--min-score", "0.95", exit_code=9)["score"]["correct"] <= 3


def test_a_load_of_the_demo_set_is_measured(served: Served) -> None:
    """Each prompt is asked as it is, so answers end by themselves, far below the limit."""
    words = (
        "--dataset",
        "demo",
        "--concurrency",
        "2",
        "--repeats",
        "1",
        "--requests",
        "8",
        "--output-tokens",
        "96",
    )
    done = served.user.run("bench", *served.words, *words, "--json")
    (point,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (point["errors"], point["stops"].get("length", 0)) == (0, 0), point


def test_up_again_changes_nothing(served: Served) -> None:
    before = docker("ps", "--no-trunc", "--filter", f"name={served.user.name}", "--format", "{{.ID}}")
    again = served.user.json(*served.user.up())
    after = docker("ps", "--no-trunc", "--filter", f"name={served.user.name}", "--format", "{{.ID}}")
    assert (again["outcome"], again["run"], after) == ("already-up", served.printed["run"], before)


def test_up_again_tells_that_other_answers_are_expected_by_now(served: Served) -> None:
    done = served.user.run(*served.user.up("--set", "expect.accept_length_min=3"))
    told = done.stdout.splitlines()
    assert (done.returncode, told[0].split(" since ")[0]) == (
        0, f"cpu-demo is up already by this plan: http://127.0.0.1:{served.user.port}"
    )  # fmt: skip
    assert told[1:] == [
        "its answers were judged by other expectations when it started (expect accept_length_min: None -> 3.0):",
        f"  kitctl down {shlex.join(served.words)}, and up again, to have them judged by these",
    ]


@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        ((), "already-up"),
        (("--set", "engine.max_running_requests=7", "--replace"), "would-replace"),
    ],
)
def test_a_dry_run_foresees_what_is_there(served: Served, more: tuple[str, ...], outcome: str) -> None:
    assert served.user.json(*served.user.up("--dry-run", *more))["outcome"] == outcome


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_up_by_another_plan_is_refused_with_the_difference(served: Served, dry: tuple[str, ...]) -> None:
    words = ("up", *served.words, "--port", "1234", "--set", "engine.max_running_requests=7")
    done = served.user.run(*words, *dry)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.replace(" --dry-run", "").splitlines() == [
        "kitctl: cpu-demo runs by another plan (other-plan-up)",
        "  seen: argv --max-running-requests: 16 -> 7",
        f"  seen: published: 127.0.0.1:{served.user.port} -> 127.0.0.1:1234",
        f"  do:   kitctl {shlex.join(words)} --replace, or another --name NAME and --port N to run both",
    ]


def test_status_and_ps_tell_the_same(served: Served) -> None:
    status = served.user.json("status", *served.words)
    rows = [row for row in served.user.json("ps")["stacks"] if row["project"] == status["project"]]
    assert [row["run"] for row in rows] == [status["run"]] == [served.printed["run"]]
    assert (status["state"], status["healthy"], status["serves"]) == ("ready", True, ["demo"])
    assert (status["drift"], status["restarts"], status["exit_code"]) == ([], 0, None)


def test_the_record_proves_what_runs(served: Served) -> None:
    path = served.user.state / "runs" / served.printed["run"] / "record.json"
    record = json.loads(path.read_text())
    live = json.loads(docker("inspect", record["container_id"]))[0]
    assert tuple(record["argv_live"]) == tuple(live["Config"]["Cmd"]) == tuple(record["plan"]["argv"])
    assert record["image_id"] == live["Image"]
    assert (record["outcome"], len(record["models"][0]["content_hash"])) == ("ready", 64)
    assert live["HostConfig"]["Init"] is True
    assert live["HostConfig"]["LogConfig"]["Config"] == {"max-file": "5", "max-size": "50m"}


def test_logs_and_wait(served: Served) -> None:
    logged = served.user.run("logs", *served.words)
    assert "The server is fired up and ready to roll!" in logged.stdout
    last = served.user.run("logs", *served.words, "--tail", "2")
    assert len(last.stdout.splitlines()) == 2
    for timeout in ("60", "0"):
        waited = served.user.json("wait", *served.words, "--timeout", timeout)
        assert (waited["schema"], waited["verdict"]) == ("kitctl.wait/1", "ready")


def test_restart_answers_again_by_the_same_run(served: Served) -> None:
    done = served.user.run("restart", *served.words, timeout_s=START_S)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"cpu-demo answers at {served.printed['url']}\n"
    status = served.user.json("status", *served.words)
    assert (status["run"], status["healthy"], status["drift"]) == (served.printed["run"], True, [])


def test_down_leaves_nothing_and_keeps_record_and_log(served: Served) -> None:
    done = served.user.run("down", *served.words)
    assert (done.returncode, served.user.leftovers()) == (0, [])
    folder = served.user.state / "runs" / served.printed["run"]
    record = json.loads((folder / "record.json").read_text())
    assert (record["outcome"], record["ended"] is not None) == ("stopped", True)
    assert "POST /v1/chat/completions" in (folder / "engine.log").read_text()
    again = served.user.run("down", *served.words)
    assert (again.returncode, again.stdout.startswith("cpu-demo is not up")) == (0, True)


def test_a_rehearsal_serves_needs_no_build_and_lists_what_was_left_out(served: Served) -> None:
    user = served.user
    words = user.up("--rehearse", "--json", stack="ep4-dflash")
    done = user.run(*words, timeout_s=START_S)
    assert done.returncode == 0, done.stderr + done.stdout
    printed = json.loads(done.stdout)
    assert (printed["outcome"], printed["model"], printed["answer"]) == ("ready", "kimi-k2.6", SENTENCE)
    assert [path for path, _ in printed["plan"]["left_out"]] == [
        "drafter",
        "parallel",
        "engine.reasoning_parser",
        "engine.tool_call_parser",
        "engine.trust_remote_code",
        "engine.graph_max_bs",
    ]
    image = next(phase["seconds"] for phase in printed["phases"] if phase["name"] == "image")
    assert image < 5
    gone = user.run("down", "ep4-dflash", "--rehearse", "--name", user.name)
    assert (gone.returncode, user.leftovers()) == (0, [])
