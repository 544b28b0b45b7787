"""What stands on this host already, as far as ``kitctl setup`` must know? Types, probes and their parsers."""

from __future__ import annotations

import json
import re
from enum import StrEnum
from typing import Any

import msgspec

OS_RELEASE = "/etc/os-release"
DOCKER_VERSION = ("docker", "version", "--format", "{{json .}}")
DOCKER_PLUGINS = ("docker", "info", "--format", "{{json .ClientInfo}}")
DOCKERD_VERSION = ("dockerd", "--version")
BROKEN_PACKAGES = ("dpkg", "--audit")
LIBC_VERSION = ("dpkg-query", "--show", "--showformat", "${Version}", "libc6")
INDEX_ADDRESSES = ("apt-get", "-o", "Debug::NoLocking=1", "--print-uris", "update")
CAP_SYS_ADMIN = 21
_DEBIAN_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}
_INDEX = re.compile(r"'(?P<base>[^']+)/dists/(?P<suite>[^']+)/InRelease'")
_NUMBERS = re.compile(r"\d+")


class OsRelease(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The distribution as /etc/os-release names it."""

    id: str | None = None
    version: str | None = None
    name: str | None = None


class Silence(StrEnum):
    """Why no engine answered."""

    ABSENT = "absent"
    DENIED = "denied"


class EngineAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``docker version`` said. ``client`` is ``None`` without a docker program, ``server`` when no engine
    answered: ``silence`` and ``said`` tell why. ``is_docker`` is false for another engine behind that name."""

    client: str | None = None
    server: str | None = None
    is_docker: bool = True
    silence: Silence | None = None
    said: str = ""


class Plugin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plugin of the docker program, and the file that it is."""

    name: str
    version: str
    path: str


class Offer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A package that a suite offers; ``libc`` is the oldest C library that it runs with."""

    suite: str
    package: str
    version: str
    size_bytes: int
    libc: str | None = None


class Offers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What later suites offer, and why one could not be asked."""

    packages: tuple[Offer, ...] = ()
    problems: tuple[str, ...] = ()


class SetupFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One host, read.

    ``present``: those of the recipe's programs and paths that are there. ``unpacked``: names of the folders
    below the recipe's package folder. ``dockerd`` and ``dockerd_path``: version and place of a dockerd in
    ``search_path``. ``daemon_pids``: running dockerd processes. ``remote``: the engine that DOCKER_HOST or the
    docker context points at, when it is not this host's. ``mirror``: where the release's own packages come
    from. ``pip``: the argv that starts pip or a program of its kind.
    """

    os: OsRelease
    engine: EngineAnswer
    is_root: bool
    may_administer: bool
    has_systemd: bool
    has_cgroups: bool
    architecture: str
    libc: str | None = None
    plugins: tuple[Plugin, ...] = ()
    present: tuple[str, ...] = ()
    unpacked: tuple[str, ...] = ()
    packages_broken: bool = False
    has_docker_group: bool = True
    dockerd: str | None = None
    dockerd_path: str | None = None
    search_path: str = ""
    daemon_pids: tuple[int, ...] = ()
    remote: str | None = None
    mirror: str | None = None
    pip: tuple[str, ...] | None = None


def parse_os_release(text: str) -> OsRelease:
    """ID, VERSION_ID and PRETTY_NAME of /etc/os-release."""
    pairs = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    values = {key: value.strip().strip("\"'") for key, value in pairs.items()}
    return OsRelease(id=values.get("ID"), version=values.get("VERSION_ID"), name=values.get("PRETTY_NAME"))


def parse_docker_version(stdout: str | None, stderr: str) -> EngineAnswer:
    """The answer of ``docker version``; ``stdout`` is ``None`` when there is no docker program."""
    if stdout is None:
        return EngineAnswer(silence=Silence.ABSENT, said="there is no docker program")
    said = stderr.strip()
    answer = _object(stdout)
    client = (answer.get("Client") or {}).get("Version")
    server = answer.get("Server") or {}
    if not server.get("Version"):
        denied = "permission denied" in said.lower()
        silence = Silence.DENIED if denied else Silence.ABSENT
        return EngineAnswer(client=client, silence=silence, said=said)
    components = [part.get("Name") for part in server.get("Components") or [{"Name": "Engine"}]]
    return EngineAnswer(client=client, server=server["Version"], is_docker="Engine" in components)


def parse_plugins(stdout: str) -> tuple[Plugin, ...]:
    """The plugins that ``docker info`` lists; broken ones carry no version and are left out."""
    listed = _object(stdout).get("Plugins") or []
    return tuple(
        Plugin(name=one["Name"], version=one["Version"], path=one["Path"])
        for one in listed
        if one.get("Version")
    )


def parse_context(stdout: str) -> str | None:
    """The docker context in use, ``None`` for the default one."""
    name = _object(stdout).get("Context")
    return name if isinstance(name, str) and name not in ("", "default") else None


def parse_dockerd_version(stdout: str) -> str | None:
    """``28.5.2`` of ``Docker version 28.5.2, build ...``."""
    found = re.search(r"version (\S+?),", stdout)
    return found[1] if found else None


def parse_offers(text: str, suite: str) -> tuple[Offer, ...]:
    """The packages that ``apt-cache show`` describes."""
    return tuple(_offer(stanza, suite) for stanza in text.strip().split("\n\n") if "Version:" in stanza)


def _offer(stanza: str, suite: str) -> Offer:
    fields = dict(re.findall(r"^([A-Za-z0-9-]+): (.*)$", stanza, re.MULTILINE))
    libc = re.search(r"libc6 \(>= ([^)]+)\)", fields.get("Depends", ""))
    return Offer(
        suite=suite,
        package=fields["Package"],
        version=fields["Version"],
        size_bytes=int(fields["Size"]),
        libc=libc[1] if libc else None,
    )


def problem_of(suite: str, said: str) -> str:
    """Why a suite's lists could not be read, from apt's first complaint."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("E: ") for line in lines if line.startswith("E: ")]
    return f"Debian {suite} could not be asked: {(errors or lines or ['apt gave no reason'])[0]}"


def parse_mirror(print_uris: str, codename: str) -> str | None:
    """The mirror that this host takes the release ``codename`` from, by ``apt-get --print-uris update``."""
    found = (match for match in _INDEX.finditer(print_uris) if match["suite"] == codename)
    first = next(found, None)
    return first["base"] if first else None


def parse_may_administer(status: str) -> bool:
    """Whether /proc/self/status shows CAP_SYS_ADMIN, without which no engine can run."""
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    return bool(found and int(found[1], 16) >> CAP_SYS_ADMIN & 1)


def debian_architecture(machine: str) -> str:
    """Debian's name of the processor that the kernel calls ``machine``."""
    return _DEBIAN_NAMES.get(machine, machine)


def parse_has_cgroups(mounts: str) -> bool:
    """Whether /proc/mounts shows control groups, of either version."""
    return any(line.split()[2] in ("cgroup", "cgroup2") for line in mounts.splitlines())


def version_key(version: str) -> tuple[int, ...]:
    """A key that orders upstream versions: epoch, leading ``v`` and Debian revision do not count."""
    upstream = version.split(":", 1)[-1].lstrip("v").split("+")[0].split("-")[0].split("~")[0]
    return tuple(int(number) for number in _NUMBERS.findall(upstream))


def is_at_least(version: str | None, minimum: str) -> bool:
    """Whether ``version`` is known and not older than ``minimum``."""
    return version is not None and version_key(version) >= version_key(minimum)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
