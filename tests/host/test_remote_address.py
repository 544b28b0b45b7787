"""ssh addresses, the words that ssh is given, and what its last words mean."""

import subprocess

import pytest

from kitctl.errors import KitError
from kitctl.host.remote_address import SshHost, agent_command, read_address, ssh_argv, unreachable_host


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("ssh://gpu1", SshHost(host="gpu1")),
        ("ssh://me@gpu1", SshHost(host="gpu1", user="me")),
        ("ssh://me@gpu1:2222", SshHost(host="gpu1", user="me", port=2222)),
        ("ssh://me@[2001:db8::7]:22", SshHost(host="2001:db8::7", user="me", port=22)),
        ("ssh://gpu1/", SshHost(host="gpu1")),
        (
            "ssh://me@gpu1/run/user/1000/docker.sock",
            SshHost(host="gpu1", user="me", socket="/run/user/1000/docker.sock"),
        ),
        ("unix:///var/run/docker.sock", None),
        ("tcp://127.0.0.1:2375", None),
        ("tcp://localhost:2375", None),
    ],
)
def test_an_address_is_read_and_written_alike(address: str, host: SshHost | None) -> None:
    assert read_address(address) == host
    if host is not None:
        assert read_address(host.address) == host


@pytest.mark.parametrize(
    "address",
    [
        "ssh://",
        "ssh://-oProxyCommand=touch",
        "ssh://-l@gpu1",
        "ssh://me:secret@gpu1",
        "ssh://gpu1:port",
        "ssh://gpu1:99999",
        "ssh://gpu1?x=1",
    ],
)
def test_what_ssh_could_not_take_is_refused(address: str) -> None:
    with pytest.raises(KitError) as refused:
        read_address(address)
    assert (refused.value.code, int(refused.value.exit_code)) == ("bad-address", 2)


def test_an_api_alone_is_no_host() -> None:
    with pytest.raises(KitError) as refused:
        read_address("tcp://gpu1:2376")
    assert refused.value.code == "engine-without-host"
    assert read_address("tcp://gpu1:2376", api_is_enough=True) is None
    assert refused.value.remedy == "name the host by ssh: --host ssh://USER@gpu1"


def test_ssh_asks_nothing_and_takes_the_users_own_configuration() -> None:
    argv = ssh_argv(SshHost(host="gpu1", user="me", port=2222), "CMD", connect_s=10)
    assert argv == (
        "ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-T",
        "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-p", "2222", "--", "me@gpu1", "CMD",
    )  # fmt: skip


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash", "/bin/dash", "/usr/bin/csh-that-is-not-here"])
def test_the_first_words_run_in_any_login_shell(shell: str, tmp_path: object) -> None:
    """A remote that lacks kitctl says so, with what it has for a Python."""
    command = agent_command("k1", "l1")
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path), "SHELL": shell}
    done = subprocess.run(["sh", "-c", command], env=env, capture_output=True, text=True, check=False)
    words = done.stdout.split()
    assert words[:2] == ["kitctl-line:", "missing"], done.stderr
    assert words[2].startswith("cpython-3.")
    assert words[3:] == ["code", "lib"]


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("Host key verification failed.", "ssh -p 22 me@gpu1, once, to see and accept its key"),
        (
            "me@gpu1: Permission denied (publickey).",
            "ssh -p 22 me@gpu1 must let you in without a question: "
            "ssh-copy-id, or ssh-add for a key with a passphrase",
        ),
        (
            "ssh: connect to host gpu1 port 22: No route to host",
            "ssh -p 22 me@gpu1 must work first; ssh -p 22 me@gpu1 -v says where it stops",
        ),
    ],
)
def test_the_remedy_follows_what_ssh_said(said: str, remedy: str) -> None:
    error = unreachable_host(SshHost(host="gpu1", user="me", port=22), said)
    assert (error.remedy, error.evidence, int(error.exit_code)) == (remedy, (said,), 10)
