"""The commands of docs/remote.md do what the page says, on a remote host, with the stub in the engine's place."""

import re
from pathlib import Path

import pytest
from kitctl_process import KitUser
from remotehost.remote_host import RemoteHost

pytestmark = pytest.mark.docker
PAGE = (Path(__file__).parent.parent / "docs" / "remote.md").read_text()
BLOCK = PAGE.partition("```sh\n")[2].partition("```")[0]
COMMANDS = [line.split()[1:] for line in BLOCK.splitlines()]


def test_the_first_commands_of_the_page(far_user: KitUser, remote_host: RemoteHost, stub: str) -> None:
    env = {name: value for name, value in far_user.env.items() if name != "KITCTL_HOST"}
    (stack,) = {words[1] for words in COMMANDS if len(words) > 3}
    for words in COMMANDS:
        typed = [remote_host.address if word == "ssh://me@gpu1" else word for word in words]
        if typed[1] == stack:
            typed += ["--name", far_user.name]
        if typed[0] in ("plan", "up"):
            typed += ["--image", stub, "--port", str(far_user.port), "--store", "/srv/models"]
        done = far_user.run(*typed, env=env)
        assert done.returncode in ((0, 9) if typed[0] == "bench" else (0,)), (typed, done.stderr, done.stdout)
    assert (far_user.home / "gpu1.jsonl").is_file()
    assert remote_host.inside("docker", "ps", "-aq", "--filter", f"name={far_user.name}") == ""


def test_the_page_tells_the_times_of_the_data() -> None:
    from kitctl.edge.package_data import package_text
    from kitctl.kit.remote_verbs import read_remote_book

    line = read_remote_book(package_text("remote.toml")).line
    told = re.sub(r"\s+", " ", PAGE)
    assert f"silent for {line.silent_s:.0f} s" in told
    assert f"After {line.give_up_s / 60:.0f} minutes it gives up" in told
    assert f"listened for {line.abandoned_s / 60:.0f} minutes" in told
    assert f"more than {line.carried_mib} MiB" in told
