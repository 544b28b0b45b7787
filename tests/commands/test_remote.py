"""``--host ssh://…`` over a real sshd: all of it is the remote's, and a dropped line ends nothing."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from kitctl_process import KitUser, Running, is_open
from remotehost.remote_host import RemoteHost

pytestmark = pytest.mark.docker
STORE = "/srv/models"
SLOW = ("--set", "environment.STUB_STEP_S=0.6")
OWN_STACK = """summary: mine
model: kitctl/demo
image: {stage: cpu}
engine: {context_length: 2048}
serve: {model_name: demo, port: 31999}
"""
PHASES = ["image", "model", "start", "started", "distributed", "weights", "kv_cache"]


def up(user: KitUser, stub: str, *words: str) -> tuple[str, ...]:
    return user.up("--image", stub, "--store", STORE, *words)


def there(host: RemoteHost, user: KitUser) -> list[str]:
    """Names of the user's containers on the remote host."""
    return host.inside(
        "docker", "ps", "-a", "--format", "{{.Names}}", "--filter", f"name={user.name}"
    ).split()


def jobs(host: RemoteHost) -> list[str]:
    return sorted(
        path.name for path in (host.folder / "root/.local/state/kitctl/remote").iterdir() if path.is_dir()
    )


def ssh_of(running: Running) -> int:
    """The ssh process of a kitctl."""
    children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children").read_text().split()
    named = [pid for pid in children if Path(f"/proc/{pid}/comm").read_text().strip() == "ssh"]
    return int(named[0])


def phases_said(lines: list[str]) -> list[str]:
    told = [found[1] for line in lines if (found := re.fullmatch(r" *([a-z_ -]+): \d+\.\d s", line))]
    return [name for name in told if name in PHASES]


def test_the_facts_are_the_remote_hosts(far_user: KitUser, remote_host: RemoteHost) -> None:
    report = far_user.home / "reports" / "host.txt"
    done = far_user.run("doctor", "--report", str(report))
    assert done.returncode == 0, done.stderr
    assert "gpus     8x NVIDIA RTX PRO 6000 Blackwell Server Edition" in done.stdout
    assert f"disk     {remote_host.folder}/data: " in done.stdout
    assert "disk     /root/.cache/huggingface/hub: " in done.stdout
    assert "NVIDIA RTX PRO 6000" in report.read_text()
    assert str(far_user.home) not in done.stdout


def test_the_whole_life_of_a_stack(far_user: KitUser, remote_host: RemoteHost, stub: str) -> None:
    """Plan, start, look, measure, stop: containers, ports, records and models are there, results here."""
    name = ("cpu-demo", "--name", far_user.name)
    plan = far_user.json("plan", *up(far_user, stub)[1:])
    assert plan["models"][0]["folder"].startswith(STORE)
    done = far_user.run(*up(far_user, stub))
    assert done.returncode == 0, done.stderr
    assert (
        f"from here: ssh -N -L {far_user.port}:127.0.0.1:{far_user.port} root@{remote_host.alias}"
        in done.stderr
    )
    assert there(remote_host, far_user) == [f"kitctl-cpu-demo--{far_user.name}-engine-1"]
    assert far_user.containers() == []
    assert not is_open(far_user.port)
    assert (remote_host.folder / "srv/models/models--kitctl--demo").is_dir()
    assert not (far_user.home / "store").exists()

    again = far_user.json(*up(far_user, stub))
    assert again["outcome"] == "already-up"
    status = far_user.json("status", *name)
    assert (status["state"], status["healthy"], status["drift"]) == ("ready", True, [])
    assert "The server is fired up" in far_user.run("logs", *name).stdout
    assert far_user.json("wait", *name)["verdict"] == "ready"
    assert [row["state"] for row in far_user.json("ps")["stacks"]] == ["ready"]
    assert far_user.json("diagnose", *name)["diagnoses"] == []
    assert far_user.json("models", "list", "--store", STORE)["models"]

    load = (
        "--concurrency",
        "2",
        "--requests",
        "4",
        "--repeats",
        "1",
        "--input-tokens",
        "8",
        "--output-tokens",
        "8",
    )
    refused = far_user.run("bench", *name, *load, "-o", "results/first.jsonl")
    assert (refused.returncode, "there is no folder results" in refused.stderr) == (2, True)
    (far_user.home / "results").mkdir()
    bench = far_user.run("bench", *name, *load, "-o", "results/first.jsonl")
    assert bench.returncode in (0, 9), bench.stderr
    assert "results: results/first.jsonl" in bench.stdout
    assert json.loads((far_user.home / "results/first.jsonl").read_text().splitlines()[0])

    down = far_user.run("down", *name)
    assert (down.returncode, there(remote_host, far_user)) == (0, [])
    assert len(far_user.json("runs", "list")["runs"]) >= 1
    assert not far_user.state.exists()
    assert jobs(remote_host) == []


def test_the_cable_is_pulled_while_a_stack_starts(
    far_user: KitUser, remote_host: RemoteHost, stub: str
) -> None:
    running = far_user.start(*up(far_user, stub, *SLOW))
    running.wait_for("weights ...")
    remote_host.pull_cable()
    try:
        running.wait_for(f"line: root@{remote_host.alias} does not answer; the work there goes on")
    finally:
        remote_host.plug_cable()
    running.wait_for(f"line: root@{remote_host.alias} answers again")
    assert running.end(timeout_s=120) == 0, running.said
    assert phases_said([line for _, line in running.lines]) == PHASES, running.said
    assert far_user.run("down", "cpu-demo", "--name", far_user.name).returncode == 0


def test_ssh_is_killed_while_a_stack_starts(far_user: KitUser, remote_host: RemoteHost, stub: str) -> None:
    running = far_user.start(*up(far_user, stub, *SLOW))
    for phase in ("started ...", "weights ..."):
        running.wait_for(phase)
        os.kill(ssh_of(running), signal.SIGKILL)
        running.wait_for("answers again")
    assert running.end(timeout_s=120) == 0, running.said
    assert phases_said([line for _, line in running.lines]) == PHASES, running.said
    assert far_user.run("down", "cpu-demo", "--name", far_user.name).returncode == 0


def test_the_terminal_dies_and_the_same_command_follows_again(
    far_user: KitUser, remote_host: RemoteHost, stub: str
) -> None:
    running = far_user.start(*up(far_user, stub, *SLOW))
    running.wait_for("started ...")
    running.send(signal.SIGKILL)
    running.end()
    done = far_user.run(*up(far_user, stub, *SLOW))
    assert done.returncode == 0, done.stderr
    first, *said = [line for line in done.stderr.splitlines() if not line.startswith("remote: ")]
    assert re.fullmatch(
        rf"the same command runs on root@{remote_host.alias} since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d; following it",
        first,
    )
    assert phases_said(said) == PHASES
    assert far_user.run("down", "cpu-demo", "--name", far_user.name).returncode == 0


def test_ctrl_c_stops_what_was_begun_there(far_user: KitUser, remote_host: RemoteHost, stub: str) -> None:
    running = far_user.start(
        *up(far_user, stub, "--set", "environment.STUB_MODE=hang", "--set", "environment.STUB_AT=weights")
    )
    running.wait_for("weights ...")
    running.send(signal.SIGINT)
    assert running.end() == 130
    assert "interrupted" in running.said
    assert (there(remote_host, far_user), jobs(remote_host)) == ([], [])


def test_ctrl_c_while_the_line_is_down_leaves_the_work(
    far_user: KitUser, remote_host: RemoteHost, stub: str
) -> None:
    running = far_user.start(*up(far_user, stub, *SLOW))
    running.wait_for("started ...")
    remote_host.pull_cable()
    try:
        running.wait_for("does not answer")
        running.send(signal.SIGINT)
        assert running.end() == 130
    finally:
        remote_host.plug_cable()
    assert f"left root@{remote_host.alias}; what was begun there goes on" in running.said
    assert far_user.run(*up(far_user, stub, *SLOW)).returncode == 0
    assert far_user.run("down", "cpu-demo", "--name", far_user.name).returncode == 0


def test_a_crash_there_is_told_here(far_user: KitUser, remote_host: RemoteHost, stub: str) -> None:
    last = "RuntimeError of the stub"
    sets = ("STUB_MODE=crash", "STUB_AT=weights", f"STUB_LAST={last}")
    done = far_user.run(*up(far_user, stub, *(w for one in sets for w in ("--set", f"environment.{one}"))))
    assert done.returncode == 7, done.stderr
    assert "the container was removed, its log is /root/.local/state/kitctl/runs/" in done.stdout
    assert there(remote_host, far_user) == []


def test_kitctl_is_killed_there(far_user: KitUser, remote_host: RemoteHost, stub: str) -> None:
    running = far_user.start(*up(far_user, stub, *SLOW))
    running.wait_for("weights ...")
    words = ("pgrep", "-f", "--", f"-s -m kitctl up cpu-demo --name {far_user.name}")
    kitctl = int(remote_host.inside(*words).splitlines()[0])
    parent = int(Path(f"/proc/{kitctl}/stat").read_text().rpartition(") ")[2].split()[1])
    os.kill(parent, signal.SIGKILL)
    os.kill(kitctl, signal.SIGKILL)
    assert running.end() == 10
    assert (
        f"kitctl: the kitctl on root@{remote_host.alias} is gone without an exit code (remote-job-lost)"
        in running.said
    )
    assert far_user.run(*up(far_user, stub, *SLOW)).returncode == 0
    assert far_user.run("down", "cpu-demo", "--name", far_user.name).returncode == 0


def test_logs_into_a_pipe_that_closes(far_user: KitUser, remote_host: RemoteHost, stub: str) -> None:
    running = far_user.start(*up(far_user, stub, *SLOW))
    running.wait_for("started ...")
    argv = f"{sys.executable} -m kitctl logs cpu-demo --name {far_user.name} -f -q | head -1"
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    logs = subprocess.Popen(["sh", "-c", argv], env=far_user.env, cwd=far_user.home, **piped)
    out, err = logs.communicate(timeout=60)
    assert (logs.returncode, len(out.splitlines()), err) == (0, 1, "")
    assert running.end() == 0
    assert far_user.run("down", "cpu-demo", "--name", far_user.name).returncode == 0


def test_what_a_verb_writes_comes_back(far_user: KitUser, remote_host: RemoteHost, stub: str) -> None:
    rendered = far_user.run("render", *up(far_user, stub)[1:], "-o", "out")
    assert rendered.returncode == 0, rendered.stderr
    assert rendered.stdout.splitlines() == [
        f"out/{name}" for name in (".env", "base.yaml", "overlay-cpu.yaml", "stack.yaml")
    ]
    assert sorted(path.name for path in (far_user.home / "out").iterdir()) == [
        ".env", "base.yaml", "overlay-cpu.yaml", "stack.yaml",
    ]  # fmt: skip
    assert STORE in (far_user.home / "out/stack.yaml").read_text()


def test_own_stacks_travel_and_a_new_lock_entry_comes_back(
    far_user: KitUser, remote_host: RemoteHost
) -> None:
    far_user.write_config("stacks/mine.yaml", OWN_STACK)
    assert far_user.json("plan", "mine")["url"] == "http://127.0.0.1:31999"
    model = remote_host.folder / "srv/own-model"
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text('{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}')
    (model / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    added = far_user.run("models", "add", "/srv/own-model", "--name", "me/own")
    assert added.returncode == 0, added.stderr
    assert "me/own" in (far_user.home / "config/kitctl/models.lock").read_text()
    assert not (remote_host.folder / "root/.config/kitctl").exists()


def test_a_docker_context_names_the_host_too(far_user: KitUser, remote_host: RemoteHost) -> None:
    env = {name: value for name, value in far_user.env.items() if name != "KITCTL_HOST"}
    made = ["docker", "context", "create", "far", "--docker", f"host={remote_host.address}"]
    subprocess.run(made, env=env, check=True, capture_output=True)
    for words, more in (
        (("--host", "far"), {}),
        ((), {"DOCKER_CONTEXT": "far"}),
        ((), {"DOCKER_HOST": remote_host.address}),
    ):
        done = far_user.run("doctor", *words, env=env | more)
        assert f"disk     {remote_host.folder}/data: " in done.stdout, done.stderr
    subprocess.run(["docker", "context", "use", "far"], env=env, check=True, capture_output=True)
    assert f"disk     {remote_host.folder}/data: " in far_user.run("doctor", env=env).stdout
    unknown = far_user.run("ps", "--host", "nowhere", env=env)
    assert (unknown.returncode, unknown.stderr.splitlines()[0]) == (
        2,
        "kitctl: docker knows no context nowhere (unknown-context)",
    )


def test_verbs_that_need_no_host_ask_none(far_user: KitUser) -> None:
    log = far_user.home / "engine.log"
    log.write_text("torch.OutOfMemoryError: CUDA out of memory.\n")
    away = ("--host", "ssh://root@192.0.2.1")
    assert far_user.run("overlays", *away).returncode == 0
    assert far_user.json("diagnose", str(log), *away)["diagnoses"]


@pytest.mark.parametrize(
    ("change", "said", "remedy"),
    [
        ("key", "Permission denied", "must let you in without a question: ssh-copy-id, or ssh-add"),
        ("known", "Host key verification failed", "once, to see and accept its key"),
        ("port", "Connection refused", "must work first"),
    ],
)
def test_a_host_that_ssh_does_not_reach(
    far_user: KitUser, remote_host: RemoteHost, change: str, said: str, remedy: str
) -> None:
    config = far_user.home / ".ssh/config"
    text = config.read_text()
    if change == "key":
        other = far_user.home / "other_key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
        config.write_text(text.replace(f"{remote_host.folder}/user_key", str(other)))
    elif change == "known":
        (far_user.home / ".ssh/known_hosts").write_text("")
    else:
        config.write_text(text.replace("Port 2222", "Port 2223"))
    done = far_user.run("ps")
    assert done.returncode == 10
    lines = done.stderr.splitlines()
    assert lines[0] == f"kitctl: ssh does not reach root@{remote_host.alias} (host-unreachable)"
    assert said in lines[1]
    assert remedy in lines[2]


def test_a_host_without_a_fit_python(far_user: KitUser, remote_host: RemoteHost) -> None:
    names = ["python3", *(f"python3.{minor}" for minor in (11, 12, 13, 14))]
    for name in names:
        (remote_host.folder / "bin" / name).write_text(
            '#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2; exit 1\n'
        )
        (remote_host.folder / "bin" / name).chmod(0o755)
    try:
        done = far_user.run("ps")
    finally:
        for name in names:
            (remote_host.folder / "bin" / name).unlink()
    assert done.returncode == 10
    assert done.stderr.splitlines()[:2] == [
        f"kitctl: root@{remote_host.alias} has no Python 3.11 or newer, which kitctl needs there "
        "(remote-without-python)",
        "  seen: Python 3.9.2",
    ]


def test_a_host_whose_state_cannot_be_written(far_user: KitUser, remote_host: RemoteHost) -> None:
    """What the host says is told at once, and nothing is tried again and again."""
    state = remote_host.folder / "root/.local/state"
    aside = state.with_name("state-aside")
    state.mkdir(parents=True, exist_ok=True)
    state.rename(aside)
    state.write_text("a file where the folder should be")
    try:
        done = far_user.run("ps")
    finally:
        state.unlink()
        aside.rename(state)
    assert done.returncode == 10
    first, *rest = done.stderr.splitlines()[-3:]
    assert first == f"kitctl: kitctl could not begin on root@{remote_host.alias} (remote-not-begun)"
    assert "/root/.local/state" in rest[0]


def test_setup_looks_at_the_remote_host(far_user: KitUser, remote_host: RemoteHost) -> None:
    done = far_user.run("setup", "--check")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "28." in done.stdout + done.stderr


def test_without_an_ssh_program(far_user: KitUser) -> None:
    empty = far_user.home / "empty"
    empty.mkdir()
    done = far_user.run("ps", env=far_user.env | {"PATH": str(empty)})
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        10,
        "kitctl: there is no ssh program here, and --host ssh:// needs it (ssh-missing)",
    )


def test_an_engine_that_only_its_api_reaches_is_refused(far_user: KitUser) -> None:
    done = far_user.run("up", "cpu-demo", "--host", "tcp://192.0.2.7:2376")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        10,
        "  do:   name the host by ssh: --host ssh://USER@192.0.2.7",
    )


def test_a_key_of_the_environment_is_written_nowhere(
    far_user: KitUser, remote_host: RemoteHost, stub: str
) -> None:
    """It goes through the line into kitctl's environment there: no argv, no file of the job holds it."""
    secret = "s3cret-of-the-environment"
    assert far_user.run(*up(far_user, stub)).returncode == 0
    env = far_user.env | {"KITCTL_API_KEY": secret}
    argv = [sys.executable, "-m", "kitctl", "logs", "cpu-demo", "--name", far_user.name, "-f"]
    process = subprocess.Popen(
        argv, env=env, cwd=far_user.home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        state = remote_host.folder / "root/.local/state/kitctl"
        files = [path for path in state.rglob("*") if path.is_file()]
        assert any(path.name == "job.json" for path in files)
        assert [str(path) for path in files if secret.encode() in path.read_bytes()] == []
        lines = [p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if p.exists()]
        assert not any(secret.encode() in line for line in lines)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert far_user.run("down", "cpu-demo", "--name", far_user.name).returncode == 0
