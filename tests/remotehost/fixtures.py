"""A remote host for tests, and a user here whose ssh reaches it."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from kitctl_process import KitUser, new_user
from remotehost.remote_host import RemoteHost, running_remote_host
from stub_engine.image import stub_image


@pytest.fixture(scope="session")
def remote_host() -> Iterator[RemoteHost]:
    """A host with eight imitated GPUs and the stub engine's image, on the other end of a cable."""
    with running_remote_host() as host:
        stub_image(host.docker_host)
        yield host


@pytest.fixture
def far_user(tmp_path: Path, remote_host: RemoteHost) -> Iterator[KitUser]:
    """A user of this machine who works on the remote host: KITCTL_HOST names it."""
    with user_of(tmp_path, remote_host) as user:
        yield user
    for container in remote_host.inside("docker", "ps", "-aq", "--filter", f"name={user.name}").split():
        remote_host.inside("docker", "rm", "-f", container)


def user_of(home: Path, *hosts: RemoteHost, **extra: str) -> AbstractContextManager[KitUser]:
    """A user whose ssh configuration knows the hosts; KITCTL_HOST names the only one."""
    for host in hosts:
        host.write_ssh_config(home)
    named = {"KITCTL_HOST": hosts[0].address} if len(hosts) == 1 else {}
    return new_user(home, PATH=f"{home}/bin:{os.environ['PATH']}", **named, **extra)
