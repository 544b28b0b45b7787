"""Which exact versions is an image built from, and what is that image called?

``images/<image>/pins.toml`` holds the pin sets; beside it lies one folder a release with the locked packages.
The hash over both names the image, so that a plan knows the image of its pin set before it is built.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from kitctl.errors import Exit, KitError
from kitctl.kit.near import did_you_mean
from kitctl.kit.typed import read_typed

# Of an entry, what says nothing about the image's content: a candidate that becomes the default stays the same.
_NOT_CONTENT = ("status", "why", "kernel_libraries", "jit_arch", "unserved")
KERNEL_LIST = "kernels.json"
LOCK_FILES = ("constraints.txt", "cpu-heavy.txt", "cpu.txt", "gpu-heavy.txt", "gpu.txt")


class Stage(StrEnum):
    """``cpu`` serves on processors (rehearsals, checks); ``gpu`` has every kernel and the CUDA compiler."""

    CPU = "cpu"
    GPU = "gpu"


class Status(StrEnum):
    """``default`` is built when no release is named; ``candidate`` has not passed on a GPU yet."""

    DEFAULT = "default"
    CANDIDATE = "candidate"
    OTHER = "other"


class Repository(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One package source of the distribution."""

    uri: str
    suite: str


class BaseRecipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base image that the kit makes itself from the distribution's packages."""

    distribution: str
    suite: str
    variant: str
    components: tuple[str, ...]
    packages: tuple[str, ...]
    repositories: tuple[Repository, ...]
    excluded_paths: tuple[str, ...] = ()
    kept_paths: tuple[str, ...] = ()


class BuildSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every build shares: the time stamp of all files (seconds since 1970) and the installer."""

    source_date_epoch: int
    uv: str


class LayerRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Decides each package's layer: see ``kitctl.kit.constraints.split_layers``."""

    engine: str
    cpu_roots: tuple[str, ...]
    gpu_only: tuple[str, ...]
    heavy: tuple[str, ...]


class PinEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One release as pins.toml states it. ``requirements``: name with extras to version range.

    ``kernel_libraries``: pattern of library files to the archs of ``arch`` that they hold no code for.
    ``unserved``: of those the archs on which the engine cannot do without, with the reason. ``jit_arch``: archs whose
    common run-time kernels are compiled into the image unless told otherwise.
    """

    status: Status
    cuda: str
    python: str
    platforms: tuple[str, ...]
    arch: tuple[str, ...]
    why: str
    versions: dict[str, str]
    requirements: dict[str, str] = {}
    kernel_libraries: dict[str, tuple[str, ...]] = {}
    unserved: dict[str, str] = {}
    jit_arch: tuple[str, ...] = ()

    @property
    def served(self) -> tuple[str, ...]:
        """The archs that the image serves; ``12.0a`` is one whose code does not run on its unserved kin, 12.1."""
        kin = {arch.partition(".")[0] for arch in self.unserved}
        return tuple(
            f"{arch}a" if arch.partition(".")[0] in kin else arch
            for arch in self.arch
            if arch not in self.unserved
        )


class FlagSources(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which files of the engine's wheel declare its flags (patterns)."""

    sources: tuple[str, ...]


class PinFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole pins.toml. ``refused``: releases that cannot be built, with the reason.

    ``memory_mib``: for each arch the memory of a typical GPU, for dry runs without one.
    """

    image: str
    default: str
    base: BaseRecipe
    build: BuildSettings
    layers: LayerRule
    flags: FlagSources
    memory_mib: dict[str, int]
    pin_sets: dict[str, PinEntry]
    refused: dict[str, str] = {}


class PinSet(msgspec.Struct, frozen=True, kw_only=True):
    """One release with its lock. ``pins_hash``: sha256 over entry, base recipe and the lock's files."""

    image: str
    release: str
    entry: PinEntry
    base: BaseRecipe
    build: BuildSettings
    pins_hash: str


def read_pins(text: str, *, source: str) -> PinFile:
    """The pin sets in ``text``. Raises KitError ``bad-pins`` (exit 2) with the file and field."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as broken:
        raise KitError(
            "bad-pins", f"{source}: {broken}", remedy=f"mend the TOML of {source}", exit_code=Exit.USAGE
        ) from broken
    pins = read_typed(tree, PinFile, source_of=lambda path: source, code="bad-pins")
    if pins.default not in pins.pin_sets:
        raise KitError(
            "bad-pins",
            f"{source}: default: there is no pin set {pins.default!r}",
            evidence=(did_you_mean(pins.default, pins.pin_sets),),
            remedy=f"name an existing pin set as the default in {source}",
            exit_code=Exit.USAGE,
        )
    for release, entry in pins.pin_sets.items():
        _check_archs(pins, release, entry, source)
    return pins


def _check_archs(pins: PinFile, release: str, entry: PinEntry, source: str) -> None:
    """Every arch has a memory size for dry runs, and what is said of archs is said of those in the list."""
    sizeless = [arch for arch in entry.arch if arch not in pins.memory_mib]
    strange = [arch for arch in (*entry.unserved, *entry.jit_arch) if arch not in entry.arch]
    if sizeless or strange:
        what = "has no entry in memory_mib" if sizeless else "is not in its arch list"
        raise KitError(
            "bad-pins",
            f"{source}: pin_sets.{release}: arch {(sizeless or strange)[0]} {what}",
            remedy=f"mend the arch in {source}",
            exit_code=Exit.USAGE,
        )


def choose_release(pins: PinFile, *, release: str | None = None, cuda: str | None = None) -> str:
    """The release to build: the one named, else the default, else the first for ``cuda``.

    Raises KitError (exit 2): ``refused-release`` with the reason, ``unknown-release`` with a near name,
    ``no-such-pair`` with the pairs that exist.
    """
    if release is None:
        return _for_cuda(pins, cuda)
    if release in pins.refused:
        raise KitError(
            "refused-release",
            f"{pins.image} {release} cannot be built: {pins.refused[release]}",
            remedy=f"kitctl build {pins.image} --release {pins.default}",
            evidence=(_existing(pins),),
            exit_code=Exit.USAGE,
        )
    if release not in pins.pin_sets:
        raise KitError(
            "unknown-release",
            f"{pins.image} has no pin set {release!r}; {did_you_mean(release, pins.pin_sets)}",
            remedy="kitctl images list",
            evidence=(_existing(pins),),
            exit_code=Exit.USAGE,
        )
    if cuda not in (None, pins.pin_sets[release].cuda):
        raise _no_such_pair(pins, release, cuda)
    return release


def _for_cuda(pins: PinFile, cuda: str | None) -> str:
    if cuda in (None, pins.pin_sets[pins.default].cuda):
        return pins.default
    for release, entry in pins.pin_sets.items():
        if entry.cuda == cuda:
            return release
    raise _no_such_pair(pins, None, cuda)


def _no_such_pair(pins: PinFile, release: str | None, cuda: str | None) -> KitError:
    what = f"{pins.image} {release} with CUDA {cuda}" if release else f"{pins.image} with CUDA {cuda}"
    return KitError(
        "no-such-pair",
        f"there is no pin set for {what}",
        evidence=(_existing(pins),),
        remedy=f"kitctl build {pins.image} --cuda {pins.pin_sets[release or pins.default].cuda}",
        exit_code=Exit.USAGE,
    )


def _existing(pins: PinFile) -> str:
    pairs = [f"{release} (CUDA {entry.cuda}, {entry.status})" for release, entry in pins.pin_sets.items()]
    return f"existing: {', '.join(pairs)}"


def load_pin_set(pins: PinFile, release: str, lock: Mapping[str, str]) -> PinSet:
    """The pin set of ``release`` with its hash; ``lock`` maps each of ``LOCK_FILES`` to its text.

    Raises KitError ``unlocked-release`` (exit 2) when a file of the lock is missing.
    """
    missing = [name for name in LOCK_FILES if name not in lock]
    if missing:
        raise KitError(
            "unlocked-release",
            f"{pins.image} {release} has no {', '.join(missing)}",
            remedy=f"kitctl images lock {pins.image} --release {release}",
            exit_code=Exit.USAGE,
        )
    entry = pins.pin_sets[release]
    return PinSet(
        image=pins.image,
        release=release,
        entry=entry,
        base=pins.base,
        build=pins.build,
        pins_hash=_pins_hash(pins, entry, lock),
    )


def lock_of(texts: Mapping[str, str], release: str) -> dict[str, str]:
    """The lock files of ``release`` among the texts of an image's folder, by file name."""
    return {name: texts[f"{release}/{name}"] for name in LOCK_FILES if f"{release}/{name}" in texts}


def _pins_hash(pins: PinFile, entry: PinEntry, lock: Mapping[str, str]) -> str:
    stated = msgspec.to_builtins(entry)
    body = {
        "image": pins.image,
        "entry": {key: value for key, value in stated.items() if key not in _NOT_CONTENT},
        "base": msgspec.to_builtins(pins.base),
        "build": msgspec.to_builtins(pins.build),
        "lock": {name: text_hash(lock[name]) for name in LOCK_FILES},
    }
    return text_hash(json.dumps(body, sort_keys=True))


def text_hash(text: str) -> str:
    """sha256 of the text's UTF-8 bytes, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def base_hash(base: BaseRecipe, build: BuildSettings) -> str:
    """What names the kit-made base image: sha256 over its recipe and its time stamp."""
    body = {"base": msgspec.to_builtins(base), "epoch": build.source_date_epoch}
    return text_hash(json.dumps(body, sort_keys=True))


def image_tag(pin_set: PinSet, stage: str) -> str:
    """``kitctl/sglang:0.5.16-13.0-gpu-<first 12 of the pins hash>``, known before anything is built."""
    return f"kitctl/{pin_set.image}:{pin_set.release}-{pin_set.entry.cuda}-{stage}-{pin_set.pins_hash[:12]}"


def base_tag(base: BaseRecipe, build: BuildSettings) -> str:
    """The reference of the kit-made base image on the engine."""
    return f"kitctl/base:{base.distribution}-{base.suite}-{base_hash(base, build)[:12]}"
