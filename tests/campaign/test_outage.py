"""The container engine goes away in the middle of a campaign: it is waited for, and nothing is missing or double."""

import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest
from campaign.series import plant, status, words, write_campaign
from chaos.test_daemon import Engine, restarted
from gpuhost.gpu_host import running_gpu_host
from kitctl_process import new_user
from stub_speed.image import speed_image

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture(scope="module")
def own_engine() -> Iterator[Engine]:
    """An engine that may be stopped, and the daemons that were started after it."""
    later: list[Popen[bytes]] = []
    with running_gpu_host(drivers=()) as host:
        host.copy_image(speed_image())
        yield host, later
    for daemon in later:
        daemon.wait(60)


def test_an_engine_that_is_restarted_costs_one_load_and_no_point(own_engine: Engine, tmp_path: Path) -> None:
    with new_user(tmp_path, DOCKER_HOST=own_engine[0].docker_host) as user:
        plant(user, speed_image(), "steady", STUB_TOKEN_MS="12")
        path = write_campaign(user, ["steady"], repeats=12, levels="[1, 4]")
        run = user.start(*words(user, path))
        run.wait_for("2 of 24 works done", timeout_s=120)
        with restarted(own_engine, "stopped"):
            time.sleep(3)
        assert run.end(timeout_s=400) == 0, run.said
        assert run.said.count("the container engine answers again") == 1
        told = status(user)
        assert (told["outcome"], told["open"], told["doubles"], told["holes"]) == ("complete", [], [], {})
        assert len(told["done"]) == 24
        assert len(told["report"]["starts"]) == 2
        assert user.run("ps").stdout.count(user.name) == 0
