"""kitctl setup on the machine's engine, and on a bare Debian that only knows Python."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpuhost.gpu_host import GpuHost
from kitctl_process import KIT, KitUser, docker

BARE_IMAGE = "kitctl-test-bare:bookworm"
BARE = f"kitctl-test-bare-{os.getpid()}"
# How this machine reaches its package sources: passed to the bare Debian, which has no settings of its own.
HOST_SETTINGS = ("/etc/apt/apt.conf.d", "/etc/ssl/certs", "/usr/share/ca-certificates", "/etc/pip.conf")
HOST_VARIABLES = ("PIP_", "SSL_CERT", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")


@pytest.mark.docker
def test_on_a_complete_host_there_is_nothing_to_do(kit_user: KitUser) -> None:
    data = kit_user.json("setup", "--check")
    assert (data["nothing_to_do"], data["steps"], data["findings"], data["notes"]) == (True, [], [], [])
    assert data["engine"] == docker("version", "--format", "{{.Server.Version}}")


@pytest.mark.docker
def test_an_engine_elsewhere_that_works_is_left_alone(kit_user: KitUser, gpu_host: GpuHost) -> None:
    done = kit_user.run("setup", "--yes", "--host", gpu_host.docker_host)
    assert (done.returncode, done.stdout.startswith("nothing to do: Docker Engine ")) == (0, True)


@pytest.mark.docker
def test_an_engine_elsewhere_that_is_down_is_not_replaced(kit_user: KitUser) -> None:
    data = kit_user.json("setup", "--yes", "--host", f"unix://{kit_user.home}/none.sock", exit_code=10)
    assert [found["code"] for found in data["findings"]] == ["engine-elsewhere"]


@pytest.fixture(scope="module")
def bare_debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A privileged container of a Debian 12 with Python alone: no engine, no docker, no settings."""
    known = subprocess.run(["docker", "image", "inspect", BARE_IMAGE], capture_output=True, check=False)
    if known.returncode != 0:
        tar = tmp_path_factory.mktemp("bare") / "bookworm.tar"
        include = "--include=python3-venv,ca-certificates"
        subprocess.run(
            ["mmdebstrap", "--variant=apt", include, "bookworm", tar], capture_output=True, check=True
        )
        docker("import", str(tar), BARE_IMAGE)
        tar.unlink()
    settings = [f"--volume={path}:{path}:ro" for path in HOST_SETTINGS if Path(path).exists()]
    variables = [f"--env={name}" for name in os.environ if name.startswith(HOST_VARIABLES)]
    volumes = ["--volume=/var/lib/docker", f"--volume={KIT}:/kit:ro"]
    options = ["--detach", "--privileged", "--init", *settings, *variables, *volumes]
    subprocess.run(["docker", "rm", "-fv", BARE], capture_output=True, check=False)
    docker("run", "--name", BARE, *options, BARE_IMAGE, "sleep", "infinity")
    try:
        yield BARE
    finally:
        docker("rm", "-fv", BARE)


def inside(name: str, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", "exec", name, "sh", "-c", script], capture_output=True, text=True, check=False
    )


@pytest.mark.docker
@pytest.mark.slow
def test_a_bare_debian_comes_to_a_working_engine_and_back(bare_debian: str) -> None:
    """Asked without --yes it only says what it would do; then it does it, once; --stop leaves no process."""
    copied = "mkdir /src && cd /kit && cp -r kitctl images compose models.lock pyproject.toml README.md /src"
    made = inside(bare_debian, f"{copied} && python3 -m venv /venv && /venv/bin/pip install -q /src")
    assert made.returncode == 0, made.stderr
    asked = inside(bare_debian, "/venv/bin/kitctl setup; echo exit $?; command -v docker")
    assert asked.stdout.splitlines()[-2:] == [
        "nothing was done; to do it: kitctl setup --yes",
        "exit 3",
    ], asked.stdout + asked.stderr
    done = inside(bare_debian, "/venv/bin/kitctl setup --yes")
    assert (done.returncode, done.stdout.startswith("ready: Docker Engine ")) == (0, True), done.stderr
    again = inside(bare_debian, "/venv/bin/kitctl setup --yes")
    assert (again.returncode, again.stdout.startswith("nothing to do: Docker Engine ")) == (0, True)
    runs = inside(
        bare_debian,
        "mkdir -p /r/bin && cp /usr/bin/tini-static /r/bin/t && tar -C /r -c . | docker import - t:1 >/dev/null"
        " && docker run --rm --init t:1 /bin/t --version",
    )
    assert runs.stdout.startswith("tini version"), runs.stdout + runs.stderr
    stopped = inside(bare_debian, "/venv/bin/kitctl setup --stop && cat /proc/[0-9]*/comm")
    assert "has ended" in stopped.stdout
    assert {"dockerd", "containerd"} & set(stopped.stdout.split()) == set()
    back = inside(
        bare_debian, "/venv/bin/kitctl setup --yes 2>&1 | grep '^\\[' ; docker images -q t:1 | wc -l"
    )
    assert [line for line in back.stdout.splitlines() if line.endswith("...")] == [
        "[1/1] start the engine detached, log in /var/log/kitctl-engine.log ..."
    ]
    assert back.stdout.splitlines()[-1] == "1"
