"""The system clock is set while kitctl waits and between its runs: deadlines and the order of runs hold."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos.clock import DAY_S, Clock, user_with_clock
from chaos.events import event_in_run, up
from chaos.measured import settle
from kitctl_process import KitUser

pytestmark = pytest.mark.docker
SLOW_LOAD = {"STUB_STEP_S": "0.5"}


@pytest.fixture
def clocked(tmp_path: Path) -> Iterator[tuple[KitUser, Clock]]:
    """A user and a clock to set."""
    with user_with_clock(tmp_path) as found:
        yield found


def step_while_loading(user: KitUser, clock: Clock, offset_s: int) -> threading.Thread:
    """Set the clock a second after the container runs."""

    def wait_and_step() -> None:
        while not user.containers():
            time.sleep(0.05)
        time.sleep(1.0)
        clock.step(offset_s)

    thread = threading.Thread(target=wait_and_step)
    thread.start()
    return thread


@pytest.mark.parametrize(("name", "offset_s"), [("clock-ahead", DAY_S), ("clock-back", -DAY_S)])
def test_a_clock_set_while_it_loads_ends_nothing(
    name: str, offset_s: int, clocked: tuple[KitUser, Clock], fault_server: str, accept: bool
) -> None:
    user, clock = clocked
    thread = step_while_loading(user, clock, offset_s)
    told = up(user, fault_server, SLOW_LOAD, "--timeout", "60")
    thread.join()
    assert (told.exit_code, told.data["outcome"]) == (0, "ready"), told.lines
    run = user.json("runs", "show", told.data["run"])["run"]
    assert (run["ready"] > run["started"]) is (offset_s == DAY_S), "the clock was not set in between"
    total_s = next(phase["seconds"] for phase in run["phases"] if phase["name"] == "total")
    assert all(0 <= phase["seconds"] <= total_s for phase in run["phases"])
    settle(name, total_s, accept=accept)
    assert user.run("down", "cpu-demo", "--name", user.name).returncode == 0
    assert user.leftovers() == []


def test_a_clock_set_back_does_not_put_the_deadline_off(
    clocked: tuple[KitUser, Clock], fault_server: str, accept: bool
) -> None:
    user, clock = clocked
    thread = step_while_loading(user, clock, -DAY_S)
    told = up(user, fault_server, {"STUB_FAULT": "silent-hang"}, "--timeout", "6")
    thread.join()
    assert told.exit_code == 8, told.lines
    settle("clock-back-hang", told.when("engine: ") - event_in_run(user, told), accept=accept)
    assert user.leftovers() == []


def test_runs_keep_their_order_when_the_clock_was_set_back_between_them(
    clocked: tuple[KitUser, Clock], fault_server: str
) -> None:
    user, clock = clocked
    words = ("cpu-demo", "--name", user.name)
    runs = []
    for offset_s, fault in ((0, "silent-exit"), (-DAY_S, "none"), (-2 * DAY_S, "silent-exit")):
        clock.step(offset_s)
        runs.append(up(user, fault_server, {"STUB_FAULT": fault}).data["run"])
        assert user.run("down", *words).returncode == 0
    listed = user.json("runs", "list")["runs"]
    assert [run["id"] for run in listed] == runs[::-1]
    assert [run["outcome"] for run in listed] == ["crashed", "stopped", "crashed"]
    shown = user.json("runs", "show", "cpu-demo")["run"]
    assert shown["id"] == runs[-1] and shown["id"] < runs[0]
