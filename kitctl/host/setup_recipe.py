"""What does ``kitctl setup`` need of a host, and where does each distribution have it? The types of setup.toml."""

from __future__ import annotations

import tomllib
from enum import StrEnum
from pathlib import PurePosixPath

import msgspec


class Part(StrEnum):
    """What a package is needed for."""

    ENGINE = "engine"
    CLIENT = "client"
    BUILDX = "buildx"
    BASE_IMAGE = "base-image"


class Way(StrEnum):
    """How a distribution gets an engine: its own packages, or a later suite's unpacked beside the system."""

    INSTALL = "install"
    UNPACK = "unpack"


class Minimum(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The oldest versions that kitctl works with."""

    engine: str
    buildx: str
    compose: str


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where setup puts things on the host."""

    root: str
    client_link: str
    plugin_folder: str
    daemon_config: str
    pidfile: str
    other_pidfile: str
    log: str
    unit: str
    exec_root: str
    lock: str

    @property
    def packages(self) -> str:
        """The folder of unpacked packages, ``<package>_<version>`` each."""
        return f"{self.root}/packages"

    @property
    def helpers(self) -> str:
        """The folder of the engine's helper programs that packages name otherwise."""
        return f"{self.root}/bin"

    @property
    def containerd_pidfile(self) -> str:
        """Where the engine keeps the number of its own containerd."""
        return f"{self.exec_root}/containerd/containerd.pid"

    @property
    def init_helper(self) -> str:
        """The program that the engine knows as docker-init."""
        return f"{self.helpers}/docker-init"

    @property
    def unit_name(self) -> str:
        """The systemd unit's name."""
        return PurePosixPath(self.unit).name


class DaemonSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the engine is configured and started."""

    config: str
    system_path: str
    keep_environment: tuple[str, ...]
    start_timeout_s: float
    stop_timeout_s: float
    unit_text: str


class ComposeWheel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The wheel that carries the compose plugin; ``sha256`` by Debian architecture."""

    requirement: str
    version: str
    program: str
    sha256: dict[str, str]


class Need(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A package of the release itself; ``provides`` (a program or an absolute path) shows that it is there."""

    package: str
    provides: str
    part: Part
    reason: str


class Unpacked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A package that is unpacked from a later suite: the version tried, and the oldest that will do."""

    package: str
    tried: str
    part: Part
    at_least: str


class Distribution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One release of a distribution; ``tried`` says whether setup was run on it."""

    id: str
    release: str
    name: str
    codename: str
    tried: bool
    way: Way
    needs: str
    suites: tuple[str, ...] = ()
    keyring: str | None = None


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of ``data/setup.toml``."""

    minimum: Minimum
    place: Place
    daemon: DaemonSettings
    compose: ComposeWheel
    distribution: tuple[Distribution, ...]
    needs: dict[str, tuple[Need, ...]]
    unpacked: tuple[Unpacked, ...]

    def distribution_of(self, os_id: str | None, version: str | None) -> Distribution | None:
        """The release that setup knows by this ID and VERSION_ID, if any."""
        same = (one for one in self.distribution if (one.id, one.release) == (os_id, version))
        return next(same, None)

    def things_to_look_for(self) -> tuple[str, ...]:
        """Programs and paths whose presence decides: asked of the host in one sweep."""
        provided = {need.provides for needs in self.needs.values() for need in needs}
        return tuple(sorted(provided | {self.place.daemon_config, self.place.unit, self.place.init_helper}))


def read_recipe(text: str) -> Recipe:
    """The recipe from the text of ``data/setup.toml``."""
    return msgspec.convert(tomllib.loads(text), Recipe)
