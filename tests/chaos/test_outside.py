"""What happens to the container or the host from outside is told as it is, and leaves nothing half done."""

import shlex
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from chaos.events import Told, settings, up, watch
from chaos.faults import BY_NAME
from chaos.measured import keep, settle
from chaos.test_starts import verdict_of
from kitctl_process import KitUser, docker

pytestmark = pytest.mark.docker
watching = contextmanager(watch)
EVENTS_KEPT = 256
"""How many events the container engine remembers."""
SMALL = """\
services:
  engine:
    mem_limit: 96m
    memswap_limit: 96m
x-kitctl:
  summary: a memory limit that the load reaches
"""


def end(user: KitUser) -> None:
    """Take the stack down; nothing is left."""
    assert user.run("down", "cpu-demo", "--name", user.name).returncode == 0
    assert user.leftovers() == []


def do(user: KitUser, *words: str) -> float:
    """``docker WORDS CONTAINER``; the second at which it began."""
    begun_s = time.time()
    docker(*words, user.containers()[0])
    return begun_s


@pytest.mark.parametrize(
    ("name", "words", "state", "codes"),
    [
        ("docker-kill", ("kill",), "crashed", ["killed-from-outside"]),
        ("docker-stop", ("stop",), "stopped", []),
        ("docker-rm", ("rm", "-f"), "crashed", ["killed-from-outside"]),
        ("docker-pause", ("pause",), "unwell", ["paused-from-outside"]),
    ],
)
def test_somebody_ends_a_serving_container(
    name: str, words: tuple[str, ...], state: str, codes: list[str],
    kit_user: KitUser, fault_server: str, accept: bool,
) -> None:  # fmt: skip
    assert up(kit_user, fault_server, {}).exit_code == 0
    with watching(kit_user, "--every", "1", "--patience", "2") as watcher:
        watcher.wait_for("ready", timeout_s=10)
        begun_s = do(kit_user, *words)
        at_s, change = watcher.wait_for(state, timeout_s=20)
    assert [found["code"] for found in change["diagnoses"]] == codes
    settle(name, at_s - begun_s, accept=accept)
    end(kit_user)


def test_what_ended_it_is_still_told_when_the_engine_has_forgotten(
    kit_user: KitUser, fault_server: str
) -> None:
    assert up(kit_user, fault_server, {}).exit_code == 0
    with watching(kit_user, "--every", "1", "--patience", "2", "--once") as watcher:
        watcher.wait_for("ready", timeout_s=10)
        do(kit_user, "kill")
        watcher.wait_for("crashed", timeout_s=20)
    container = kit_user.containers()[0]
    for _ in range(EVENTS_KEPT):
        docker("rename", container, container + "x")
        docker("rename", container + "x", container)
    recent = docker("events", "--since", "0", "--until", str(time.time()), "--filter", "event=kill")
    assert container not in recent
    status = kit_user.json("status", "cpu-demo", "--name", kit_user.name, exit_code=7)
    assert [found["code"] for found in status["diagnoses"]] == ["killed-from-outside"]
    end(kit_user)


def test_a_restart_from_outside_is_seen_whole(kit_user: KitUser, fault_server: str, accept: bool) -> None:
    assert up(kit_user, fault_server, {}).exit_code == 0
    with watching(kit_user, "--every", "1", "--patience", "2") as watcher:
        watcher.wait_for("ready", timeout_s=10)
        begun_s = do(kit_user, "restart")
        watcher.wait_for("stopped", timeout_s=20)
        while watcher.states().count("ready") < 2 and time.time() < begun_s + 30:
            time.sleep(0.05)
        states, last_s = watcher.states(), watcher.seen[-1][0]
    assert states[-1] == "ready" and states.index("ready") < states.index("stopped")
    settle("docker-restart", last_s - begun_s, accept=accept)
    end(kit_user)


def test_a_flood_of_log_lines_changes_nothing(kit_user: KitUser, fault_server: str, accept: bool) -> None:
    assert up(kit_user, fault_server, {"STUB_FAULT": "log-flood", "STUB_DELAY_S": "4"}).exit_code == 0
    with watching(kit_user, "--every", "1", "--patience", "2") as watcher:
        watcher.wait_for("ready", timeout_s=10)
        time.sleep(8)
        assert set(watcher.states()) <= {"loading", "ready"} and watcher.states()[-1] == "ready"
    if accept:
        keep(BY_NAME["log-flood"], verdict="ready", seconds=None)
    end(kit_user)


def while_loading(
    user: KitUser, image: str, act: Callable[[], float], *, fault: str = "none"
) -> tuple[Told, float]:
    """``up`` with a slow load, and ``act`` as soon as its container runs; what was told, and when it acted."""
    acted: list[float] = []

    def wait_and_act() -> None:
        while not user.containers():
            time.sleep(0.05)
        time.sleep(1.0)
        acted.append(act())

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    told = up(user, image, {"STUB_STEP_S": "0.4", "STUB_FAULT": fault})
    thread.join()
    return told, acted[0]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("kill-while-loading", ("kill",)),
        ("stop-while-loading", ("stop",)),
        ("rm-while-loading", ("rm", "-f")),
    ],
)
def test_somebody_ends_a_loading_container(
    name: str, words: tuple[str, ...], kit_user: KitUser, fault_server: str, accept: bool
) -> None:
    told, acted_s = while_loading(kit_user, fault_server, lambda: do(kit_user, *words))
    assert (told.exit_code, verdict_of(told.data)) == (7, BY_NAME[name].verdict), told.lines
    settle(name, told.when("engine: ") - acted_s, accept=accept)
    assert kit_user.leftovers() == []


def test_a_memory_limit_that_the_load_reaches_is_named(
    kit_user: KitUser, fault_server: str, accept: bool
) -> None:
    kit_user.write_config("overlays/small.yaml", SMALL)
    told = up(kit_user, fault_server, {"STUB_FAULT": "out-of-host-memory"}, "--add", "small")
    assert (told.exit_code, verdict_of(told.data)) == (7, "host-oom-killer"), told.lines
    settle("memory-limit", told.when("engine: ") - ended_s(kit_user, told), accept=accept)
    assert kit_user.leftovers() == []


def ended_s(user: KitUser, told: Told) -> float:
    """The second of the kernel's kill, as the kernel log has it (time since boot, made wall clock)."""
    killed = [line for line in docker_host_log() if "oom-kill:" in line]
    since_boot_s = float(killed[-1].split("]")[0].strip("[ "))
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot_s


def docker_host_log() -> list[str]:
    """The kernel's log."""
    return subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout.splitlines()


@contextmanager
def full_disk(place: Path, *, size: str = "4k") -> Iterator[None]:
    """``place`` as a file system of its own with room for nothing, or for ``size``."""
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_under_the_run_records_starts_nothing(
    kit_user: KitUser, fault_server: str, accept: bool
) -> None:
    assert up(kit_user, fault_server, {}).exit_code == 0
    end(kit_user)
    begun_s = time.time()
    with full_disk(kit_user.state / "runs"):
        told = up(kit_user, fault_server, {})
    assert told.data["code"] == "file-unwritable", told.lines
    assert kit_user.leftovers() == []
    settle("state-disk-full", time.time() - begun_s, accept=accept)


def test_a_disk_that_fills_up_while_it_loads_ends_the_copy_of_the_log_alone(
    kit_user: KitUser, fault_server: str, accept: bool
) -> None:
    place = kit_user.state / "runs"
    begun_s = time.time()
    with full_disk(place, size="1m"):

        def fill() -> float:
            filled = place / "filler"
            with suppress(OSError), filled.open("wb", buffering=0) as out:
                while True:
                    out.write(bytes(4096))
            time.sleep(1.5)
            filled.unlink()
            return time.time()

        told, _ = while_loading(kit_user, fault_server, fill, fault="chatty-load")
        assert told.exit_code == 0, (told.lines, told.data)
        assert told.when("the engine's log is not kept any more: No space left on device")
        end(kit_user)
        log = (place / told.data["run"] / "engine.log").read_text()
    assert "The server is fired up and ready to roll!" in log, "down keeps the whole log"
    settle("state-disk-full-while-loading", time.time() - begun_s, accept=accept)


def test_an_image_that_is_not_there(kit_user: KitUser, accept: bool) -> None:
    begun_s = time.time()
    told = up(kit_user, "kitctl-no-such-image:1", {}, "--no-build")
    assert (told.exit_code, told.data["code"]) == (3, "image-missing"), told.lines
    assert kit_user.leftovers() == []
    settle("image-gone", time.time() - begun_s, accept=accept)


def test_a_port_taken_before_the_start_is_refused(kit_user: KitUser, fault_server: str, accept: bool) -> None:
    begun_s = time.time()
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", kit_user.port))
        holder.listen()
        told = up(kit_user, fault_server, {})
    assert (told.exit_code, told.data["outcome"]) == (3, "refused"), told.lines
    assert kit_user.leftovers() == []
    settle("port-taken-before", time.time() - begun_s, accept=accept)


def test_a_ladder_is_climbed_and_the_winner_kept(kit_user: KitUser, fault_server: str, accept: bool) -> None:
    begun_s = time.time()
    env = {"STUB_FAULT": "until-remedied", "STUB_RUNGS": "3"}
    told = up(kit_user, fault_server, env, "--set", "engine.graphs=on", "--auto-remedy")
    assert (told.exit_code, told.data["outcome"]) == (0, "ready"), told.lines
    assert [(one["settings"], one["outcome"]) for one in told.data["remedies"]] == [
        (["engine.graphs=decode"], "crashed"),
        (["engine.graph_max_bs=16"], "crashed"),
        (["engine.graphs=off"], "ready"),
    ]
    kept = kit_user.state / "runs" / told.data["run"] / "cpu-demo.yaml"
    kit_user.write_config("stacks/cpu-demo.yaml", kept.read_text())
    plan = kit_user.json("plan", "cpu-demo", "--image", fault_server)
    assert plan["settings"]["engine"]["graphs"] == "off"
    end(kit_user)
    settle("remedied", time.time() - begun_s, accept=accept)


def down(user: KitUser, *words: str) -> tuple[list[str], float]:
    """What ``kitctl down`` said and printed, and how long it took."""
    begun_s = time.time()
    done = user.run("down", "cpu-demo", "--name", user.name, *words)
    assert done.returncode == 0, done.stderr
    return [*done.stderr.splitlines(), *done.stdout.splitlines()], time.time() - begun_s


def test_down_tells_what_drains_and_until_when(kit_user: KitUser, fault_server: str, accept: bool) -> None:
    assert up(kit_user, fault_server, {"STUB_FAULT": "slow-stop"}).exit_code == 0
    said, seconds = down(kit_user)
    assert said[0].endswith("; requests in flight are finished first, for at most 60 s")
    assert [line.partition(" after ")[0] for line in said[1:3]] == [
        "  2 requests in flight",
        "  1 request in flight",
    ]
    assert said[1].endswith(" s; at 60 s they are cut off")
    assert said[3].startswith("cpu-demo is down after ")
    settle("drains", seconds, accept=accept)
    assert kit_user.leftovers() == []


def test_requests_that_are_cut_off_are_told(kit_user: KitUser, fault_server: str, accept: bool) -> None:
    grace = ("--set", "serve.stop_grace_s=3")
    assert up(kit_user, fault_server, {"STUB_FAULT": "never-stops"}, *grace).exit_code == 0
    said, seconds = down(kit_user)
    assert said[2].startswith("  it did not end within 3 s and was killed; 3 requests may be lost (")
    settle("drains-too-long", seconds, accept=accept)
    assert kit_user.leftovers() == []


def test_who_takes_the_port_meanwhile_is_named(kit_user: KitUser, fault_server: str, accept: bool) -> None:
    assert up(kit_user, fault_server, {}).exit_code == 0
    program = (
        "import socket, sys, time\ns = socket.socket(); s.setsockopt(1, 2, 1)\n"
        "while True:\n  try: s.bind(('127.0.0.1', int(sys.argv[1]))); break\n  except OSError: pass\n"
        "s.listen(); time.sleep(600)"
    )
    with subprocess.Popen(["python3", "-c", program, str(kit_user.port)]) as taker:
        said, seconds = down(kit_user, "--free-within", "2")
        assert taker.poll() is None
        taker.kill()
    assert said[-1] == f"  left     port {kit_user.port} is taken by python3 (pid {taker.pid})"
    settle("port-taken-after-down", seconds, accept=accept)


def test_what_to_try_next_is_the_users_own_command_with_the_change(
    kit_user: KitUser, fault_server: str
) -> None:
    env = settings({"STUB_FAULT": "until-remedied", "STUB_RUNGS": "3"})
    words = kit_user.up("--image", fault_server, *env, "--set", "engine.graphs=on")
    done = kit_user.run(*words)
    assert done.returncode == 7, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("next:  ")]
    said = shlex.split(line.removeprefix("next:  "))
    assert said == ["kitctl", *words, "--set", "engine.graphs=decode"]
    again = kit_user.json(*said[1:], exit_code=7)
    assert again["plan"]["settings"]["engine"]["graphs"] == "decode"
