"""The log of a container's latest life is whole, also when the host's clock was set back meanwhile."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from kitctl_process import docker

from kitctl.edge.container_log import log_lines
from kitctl.edge.docker_engine import container_state

pytestmark = pytest.mark.docker
SAYS = (
    "import os, time; [print(word, os.getpid(), flush=True) or time.sleep(0.05) for word in ('one', 'two')]"
)


@pytest.fixture
def container(stub: str) -> Iterator[str]:
    """A container that has said two lines and ended."""
    name = f"kitctl-log-{secrets.token_hex(3)}"
    docker("run", "--name", name, "--entrypoint", "python3", stub, "-c", SAYS)
    try:
        yield name
    finally:
        docker("rm", "-f", name)


def said(name: str) -> list[str]:
    """The words of the container's latest life."""
    state = container_state(name)
    assert state is not None
    return [line.split()[0] for line in log_lines(name, follow=False, life=state.started_at)]


def test_an_earlier_life_is_left_out(container: str) -> None:
    assert said(container) == ["one", "two"]
    docker("start", "-a", container)
    assert docker("logs", container).split()[::2] == ["one", "two", "one", "two"]
    assert said(container) == ["one", "two"]


def test_what_came_after_the_clock_was_set_back_is_not(container: str) -> None:
    log = Path(docker("inspect", "--format", "{{.LogPath}}", container))
    first, second = (json.loads(line) for line in log.read_text().splitlines())
    second["time"] = "2001" + second["time"][4:]
    log.write_text("".join(json.dumps(entry) + "\n" for entry in (first, second)))
    assert said(container) == ["one", "two"]
