"""Readers of what setup must know, held by real outputs (Docker 28.5.2 and 20.10.24, apt 2.6, Debian 12)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitctl.host.setup_facts import (
    EngineAnswer,
    Offer,
    OsRelease,
    Plugin,
    Silence,
    debian_architecture,
    is_at_least,
    parse_context,
    parse_docker_version,
    parse_dockerd_version,
    parse_has_cgroups,
    parse_may_administer,
    parse_mirror,
    parse_offers,
    parse_os_release,
    parse_plugins,
    problem_of,
    version_key,
)

OS_RELEASE = """PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"
NAME="Debian GNU/Linux"
VERSION_ID="12"
VERSION="12 (bookworm)"
VERSION_CODENAME=bookworm
ID=debian
HOME_URL="https://www.debian.org/"
"""
URIS = """'http://deb.debian.org/debian-security/dists/bookworm-security/InRelease' x_InRelease 0
'http://deb.debian.org/debian/dists/bookworm/InRelease' deb.debian.org_debian_dists_bookworm_InRelease 0
'http://deb.debian.org/debian/dists/bookworm/main/binary-amd64/Packages.xz' x_Packages 0
"""
SHOW = """Package: docker.io
Version: 28.5.2+dfsg4-5
Installed-Size: 79000
Depends: debconf (>= 0.5) | debconf-2.0, libc6 (>= 2.34), libsystemd0, containerd (>= 1.4~), iptables
Size: 19311940
Description: Linux container runtime
 docker complements kernel namespacing with a high-level API.

Package: tini-static
Version: 0.19.0-6
Size: 300000
"""


def test_os_release_strips_quotes() -> None:
    assert parse_os_release(OS_RELEASE) == OsRelease(
        id="debian", version="12", name="Debian GNU/Linux 12 (bookworm)"
    )
    assert parse_os_release("") == OsRelease()


def test_an_engine_that_answers() -> None:
    out = (
        '{"Client":{"Version":"28.2.2"},"Server":{"Platform":{"Name":""},'
        '"Components":[{"Name":"Engine","Version":"28.5.2+dfsg4"}],"Version":"28.5.2+dfsg4"}}\n'
    )
    assert parse_docker_version(out, "") == EngineAnswer(client="28.2.2", server="28.5.2+dfsg4")


def test_a_client_without_an_engine() -> None:
    said = "Cannot connect to the Docker daemon at unix:///nope. Is the docker daemon running?"
    answer = parse_docker_version('{"Client":{"Version":"28.2.2"},"Server":null}', said)
    assert answer == EngineAnswer(client="28.2.2", silence=Silence.ABSENT, said=said)


def test_a_socket_that_is_denied() -> None:
    said = (
        "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock"
    )
    answer = parse_docker_version('{"Client":{"Version":"28.5.2"},"Server":null}', said)
    assert (answer.silence, answer.server) == (Silence.DENIED, None)


def test_no_docker_program() -> None:
    assert parse_docker_version(None, "") == EngineAnswer(
        silence=Silence.ABSENT, said="there is no docker program"
    )


def test_podman_behind_the_name_docker() -> None:
    out = (
        '{"Client":{"Version":"4.3.1"},"Server":{"Version":"4.3.1","Components":[{"Name":"Podman Engine"}]}}'
    )
    assert parse_docker_version(out, "").is_docker is False


def test_plugins_with_their_files_and_broken_ones_left_out() -> None:
    out = (
        '{"Version":"28.2.2","Context":"default","Plugins":[{"Version":"v5.6.1","Name":"compose",'
        '"Path":"/usr/local/lib/docker/cli-plugins/docker-compose"},{"Name":"scan","Err":"exec format error"}]}'
    )
    path = "/usr/local/lib/docker/cli-plugins/docker-compose"
    assert parse_plugins(out) == (Plugin(name="compose", version="v5.6.1", path=path),)
    assert parse_plugins('{"Plugins":null}') == parse_plugins("") == ()


def test_context() -> None:
    assert parse_context('{"Context":"default"}') is None
    assert parse_context('{"Context":"gpu1"}') == "gpu1"


def test_dockerd_version() -> None:
    assert parse_dockerd_version("Docker version 20.10.24+dfsg1, build 5d6db84\n") == "20.10.24+dfsg1"
    assert parse_dockerd_version("") is None


def test_offers_with_the_c_library_they_need() -> None:
    assert parse_offers(SHOW, "forky") == (
        Offer(suite="forky", package="docker.io", version="28.5.2+dfsg4-5", size_bytes=19311940, libc="2.34"),
        Offer(suite="forky", package="tini-static", version="0.19.0-6", size_bytes=300000),
    )
    assert parse_offers("", "forky") == ()


def test_mirror_is_the_one_of_the_release() -> None:
    assert parse_mirror(URIS, "bookworm") == "http://deb.debian.org/debian"
    assert parse_mirror(URIS, "trixie") is None


def test_problem_is_apts_first_error() -> None:
    said = (
        "W: old\nE: Failed to fetch http://m/InRelease  Could not resolve 'm'\nE: Some index files failed\n"
    )
    assert problem_of("forky", said) == (
        "Debian forky could not be asked: Failed to fetch http://m/InRelease  Could not resolve 'm'"
    )
    assert problem_of("forky", "") == "Debian forky could not be asked: apt gave no reason"


def test_capabilities() -> None:
    assert parse_may_administer("Name:\tpython\nCapEff:\t000001ffffffffff\n") is True
    assert parse_may_administer("CapEff:\t00000000a80425fb\n") is False
    assert parse_may_administer("") is False


def test_architecture_goes_by_debians_names() -> None:
    assert [debian_architecture(m) for m in ("x86_64", "aarch64", "riscv64")] == ["amd64", "arm64", "riscv64"]


def test_cgroups_of_both_versions() -> None:
    assert parse_has_cgroups("cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n") is True
    assert parse_has_cgroups("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n") is True
    assert parse_has_cgroups("proc /proc proc rw 0 0\n") is False


@pytest.mark.parametrize(
    ("version", "key"),
    [
        ("28.5.2+dfsg4-5", (28, 5, 2)),
        ("v0.29.1+ds1", (0, 29, 1)),
        ("2.37.1-0ubuntu1", (2, 37, 1)),
        ("1:1.7.24~ds1-6", (1, 7, 24)),
        ("2.36-9+deb12u14", (2, 36)),
        ("5.0.0-rc.1", (5, 0, 0)),
    ],
)
def test_version_key_reads_the_upstream_part(version: str, key: tuple[int, ...]) -> None:
    assert version_key(version) == key


@given(
    st.lists(st.integers(0, 99), min_size=1, max_size=3), st.lists(st.integers(0, 99), min_size=1, max_size=3)
)
def test_is_at_least_orders_as_numbers(left: list[int], right: list[int]) -> None:
    assert is_at_least(".".join(map(str, left)), ".".join(map(str, right))) is (left >= right)


def test_an_unknown_version_is_never_enough() -> None:
    assert is_at_least(None, "1") is False
