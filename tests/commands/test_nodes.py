"""One server over two hosts: planned, compared, started, watched and stopped together over real sshds."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kitctl_process import KitUser
from remotehost.fixtures import user_of
from remotehost.remote_host import RemoteHost, lay_fabric, running_remote_host
from stub_engine.image import stub_image

pytestmark = pytest.mark.docker
STORE = "/srv/models"
PAGE = (Path(__file__).parents[2] / "docs" / "remote.md").read_text()
PAIR = """summary: a server of two hosts
model: kitctl/demo
parallel: {tp: 4}
engine: {context_length: 2048}
serve: {model_name: demo}
"""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two hosts, the network between them alone, and the stub's image on both."""

    first: RemoteHost
    second: RemoteHost
    meeting: str
    image: str

    @property
    def nodes(self) -> tuple[str, str]:
        """``--nodes`` and its value."""
        return ("--nodes", f"{self.first.address},{self.second.address}")

    def containers(self) -> list[str]:
        """Containers on both hosts, running or not."""
        names = ("docker", "ps", "-a", "--format", "{{.Names}}")
        return [*self.first.inside(*names).split(), *self.second.inside(*names).split()]


@pytest.fixture(scope="module")
def pair(remote_host: RemoteHost) -> Iterator[Pair]:
    with running_remote_host() as second:
        address, _ = lay_fabric(remote_host, second)
        image = stub_image(second.docker_host)
        yield Pair(first=remote_host, second=second, meeting=f"{address}:20000", image=image)


@pytest.fixture
def user(tmp_path: Path, pair: Pair) -> Iterator[KitUser]:
    with user_of(tmp_path, pair.first, pair.second) as user:
        user.write_config("stacks/pair.yaml", PAIR)
        yield user
    for host in (pair.first, pair.second):
        for container in host.inside("docker", "ps", "-aq").split():
            host.inside("docker", "rm", "-f", container)


def options(user: KitUser, pair: Pair, *sets: str) -> tuple[str, ...]:
    given = ("--port", str(user.port), "--image", pair.image, "--store", STORE, "--no-canary")
    return (
        *given,
        "--dist-init-addr",
        pair.meeting,
        *(word for one in sets for word in ("--set", f"environment.{one}")),
    )


def inspected(host: RemoteHost) -> dict[str, object]:
    (found,) = json.loads(host.inside("docker", "inspect", "kitctl-pair-engine-1"))
    assert isinstance(found, dict)
    return found


def test_two_hosts_serve_as_one_and_stop_together(user: KitUser, pair: Pair) -> None:
    up = user.json("up", "pair", *pair.nodes, *options(user, pair))
    assert (up["outcome"], up["url"]) == ("ready", f"http://127.0.0.1:{user.port}")
    first, second = inspected(pair.first), inspected(pair.second)
    argv = [one["Config"]["Cmd"] for one in (first, second)]  # type: ignore[index]
    at = argv[0].index("--node-rank") + 1
    assert [words.pop(at) for words in argv] == ["0", "1"]
    assert argv[0] == argv[1]
    assert argv[0][argv[0].index("--dist-init-addr") + 1] == pair.meeting
    assert argv[0][argv[0].index("--nnodes") + 1] == "2"
    for one in (first, second):
        assert one["HostConfig"]["NetworkMode"] == "host"  # type: ignore[index]
        environment = dict(pair.split("=", 1) for pair in one["Config"]["Env"])  # type: ignore[index]
        assert {environment[f"{name}_SOCKET_IFNAME"] for name in ("NCCL", "GLOO")} == {"fabric0"}
        assert not {"NCCL_IB_DISABLE", "NCCL_P2P_LEVEL", "NCCL_MIN_NCHANNELS"} & environment.keys()
    identities = {node["result"]["image_identity"] for node in up["nodes"]}
    assert len(identities) == 1 and None not in identities
    hashes = [node["result"]["models"][0]["content_hash"] for node in up["nodes"]]
    assert len(set(hashes)) == 1 and len(hashes[0]) == 64

    again = user.json("up", "pair", *pair.nodes, *options(user, pair))
    assert [node["result"]["outcome"] for node in again["nodes"]] == ["already-up", "already-up"]
    status = user.run("status", "pair", *pair.nodes)
    assert (status.returncode, status.stdout.splitlines()) == (
        0,
        [
            f"{pair.first.alias}: rank 0, ready, http://127.0.0.1:{user.port}",
            f"{pair.second.alias}: rank 1, ready, http://127.0.0.1:{user.port}",
        ],
    )
    answered = pair.first.inside("curl", "-s", f"http://127.0.0.1:{user.port}/v1/models")
    assert json.loads(answered)["data"][0]["id"] == "demo"
    down = user.run("down", "pair", *pair.nodes)
    assert (down.returncode, pair.containers()) == (0, [])


def test_a_rank_that_dies_while_it_starts_ends_all_and_is_the_cause(user: KitUser, pair: Pair) -> None:
    last = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB."
    faults = ("STUB_MODE=crash", "STUB_RANK=1", "STUB_AT=weights", "STUB_STEP_S=0.3")
    words = (*options(user, pair, *faults), "--set", f"environment.STUB_LAST='{last}'")
    done = user.run("up", "pair", *pair.nodes, *words)
    assert done.returncode == 7, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{pair.second.alias}: CAUSE ")
    assert any(last in line for line in lines)
    assert lines[-1] == f"pair: {pair.second.alias} failed first (exit 7); all ranks were stopped"
    assert pair.containers() == []


def test_a_rank_that_dies_later_ends_all(user: KitUser, pair: Pair) -> None:
    """Rank 0 of the engine lives on without its peers; the watch does not let it."""
    user.json("up", "pair", *pair.nodes, *options(user, pair))
    watch = user.start("watch", "pair", *pair.nodes)
    for _ in range(2):
        watch.wait_for("-> ready: answers")
    pair.second.inside("docker", "kill", "kitctl-pair-engine-1")
    assert watch.end(timeout_s=90) == 7
    assert f"pair: rank 1 on {pair.second.alias} ended first; all ranks were stopped" in watch.said
    assert f"{pair.second.alias}: CAUSE killed-from-outside" in watch.said
    assert pair.containers() == []


def test_a_half_is_taken_down_before_a_new_start(user: KitUser, pair: Pair) -> None:
    user.json("up", "pair", *pair.nodes, *options(user, pair))
    pair.second.inside("docker", "rm", "-f", "kitctl-pair-engine-1")
    done = user.run("up", "pair", *pair.nodes, *options(user, pair))
    assert done.returncode == 0, done.stderr
    assert f"not all ranks are up ({pair.first.alias} is there): taking down what is left" in done.stderr
    assert len(pair.containers()) == 2
    assert user.run("down", "pair", *pair.nodes).returncode == 0


def test_hosts_that_differ_are_refused(user: KitUser, pair: Pair) -> None:
    """The same tag with other layers is another engine."""
    other = "kitctl-stub:same-name"
    pair.first.inside("docker", "tag", pair.image, other)
    made = subprocess.run(
        ["docker", "-H", pair.second.docker_host, "build", "-q", "-t", other, "-"],
        input=f"FROM {pair.image}\nENV LATER=1\n".encode(),
        capture_output=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    words = ("--image", other)
    done = user.run("up", "pair", *pair.nodes, *options(user, pair), *words)
    assert done.returncode == 3
    assert "(image-not-on-all)" in done.stderr.splitlines()[0]
    assert (
        f"docker -H {pair.first.address} save {other} | docker -H {pair.second.address} load" in done.stderr
    )
    absent = user.run("up", "pair", *pair.nodes, *options(user, pair), "--image", "nowhere:1")
    assert absent.returncode == 3
    assert pair.containers() == []


def test_hosts_that_cannot_meet_are_refused(user: KitUser, pair: Pair) -> None:
    """By ssh's own address the second host has no route to the first; nor does a host hold another's address."""
    words = options(user, pair)
    at = words.index("--dist-init-addr")
    default = (*words[:at], *words[at + 2 :])
    done = user.run("up", "pair", *pair.nodes, *default)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (
        3,
        "pair: refused; nothing was fetched, built or started on any host",
    )
    assert (
        f"no network device of this host leads to rank 0 at {pair.first.address_ip} (no-route)" in done.stdout
    )
    elsewhere = user.run("up", "pair", *pair.nodes, *default, "--dist-init-addr", "198.18.255.2:20000")
    assert "no network device of this host has that address (address-not-here)" in elsewhere.stdout


@pytest.mark.parametrize(
    "nodes", ["ssh://a", "ssh://a,ssh://a", "a,b", "ssh://a,ssh://b,ssh://c,ssh://d,ssh://e"]
)
def test_nodes_are_two_to_four_hosts(user: KitUser, nodes: str) -> None:
    done = user.run("up", "pair", "--nodes", nodes)
    assert (done.returncode, "(bad-nodes)" in done.stderr) == (2, True)


def test_rendered_projects_meet_without_kitctl(user: KitUser, pair: Pair) -> None:
    """Plain ``docker compose up`` in each folder on its host brings up the one server."""
    words = (*options(user, pair), "--interface", "fabric0", "-o", "ranks", "--host", pair.first.address)
    words = tuple(word for word in words if word != "--no-canary")
    done = user.run("render", "pair", "--nodes", "2", *words)
    assert done.returncode == 0, done.stderr
    ranks = [user.home / "ranks" / f"rank-{number}" for number in (0, 1)]
    first, second = ((folder / "stack.yaml").read_text().splitlines() for folder in ranks)
    differ = [(a, b) for a, b in zip(first, second, strict=True) if a != b]
    assert next((a.strip(), b.strip()) for a, b in differ) == ("- '0'", "- '1'")
    assert [a.strip().partition(":")[0] for a, _ in differ[1:]] == ["io.kitctl.plan"]
    for host in (pair.first, pair.second):
        (host.folder / "srv/models/models--kitctl--demo").mkdir(parents=True, exist_ok=True)
    for folder, host in zip(ranks, (pair.first, pair.second), strict=True):
        started = subprocess.run(
            ["docker", "compose", "up", "-d"],
            cwd=folder,
            env=user.env | {"DOCKER_HOST": host.docker_host},
            capture_output=True,
            check=False,
        )
        assert started.returncode == 0, started.stderr
    url = f"http://127.0.0.1:{user.port}/v1/models"
    loop = f"for i in $(seq 100); do curl -sf {url} && exit 0; sleep 0.2; done; exit 1"
    assert json.loads(pair.first.inside("sh", "-c", loop))["data"][0]["id"] == "demo"


def test_the_commands_of_the_page(user: KitUser, pair: Pair) -> None:
    """The second block of docs/remote.md, on these hosts."""
    block = PAGE.split("```sh\n")[2].partition("```")[0]
    typed = {"ssh://me@gpu1,ssh://me@gpu2": pair.nodes[1], "10.0.0.1:20000": pair.meeting}
    for line in block.splitlines():
        words = [typed.get(word, word) for word in line.split()[1:]]
        more = ("--port", str(user.port), "--image", pair.image, "--store", STORE) if words[0] == "up" else ()
        done = user.run(*words, *more)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    assert pair.containers() == []
