"""Which packages does a lock hold, what needs what, and which layer of the image does each go into?

The lock is the output of ``uv pip compile --generate-hashes``: blocks ``name==version \\``, hash lines, and
the notes ``# via name`` that say which package asked for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from kitctl.errors import Exit, KitError
from kitctl.kit.pins import LayerRule

_START = re.compile(r"(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>[^\s\\;]+)")
_HASH = re.compile(r"--hash=(?P<hash>sha256:[0-9a-f]{64})")
_VIA = re.compile(r"^\s+#\s+(?:via\s+)?(?!via$)(?P<name>[a-z0-9][a-z0-9._-]*)$")


@dataclass(frozen=True, kw_only=True)
class Locked:
    """One package of a lock; ``needed_by`` holds the names of the packages that asked for it."""

    name: str
    version: str
    hashes: tuple[str, ...]
    needed_by: tuple[str, ...]


def read_constraints(text: str) -> dict[str, Locked]:
    """The packages in a lock's text by name, in file order."""
    blocks: list[list[str]] = []
    for line in text.splitlines():
        if _START.match(line):
            blocks.append([line])
        elif blocks:
            blocks[-1].append(line)
    return {locked.name: locked for locked in map(_locked, blocks)}


def _locked(block: list[str]) -> Locked:
    start = _START.match(block[0])
    assert start is not None
    return Locked(
        name=start["name"],
        version=start["version"],
        hashes=tuple(found["hash"] for line in block for found in _HASH.finditer(line)),
        needed_by=tuple(found["name"] for line in block for found in [_VIA.match(line)] if found),
    )


@dataclass(frozen=True, kw_only=True)
class Layers:
    """The names of each layer, sorted; together every package of the lock, none twice."""

    cpu_heavy: tuple[str, ...]
    cpu: tuple[str, ...]
    gpu_heavy: tuple[str, ...]
    gpu: tuple[str, ...]

    def files(self) -> dict[str, str]:
        """The name lists as files, one name a line."""
        lists = {
            "cpu-heavy.txt": self.cpu_heavy,
            "cpu.txt": self.cpu,
            "gpu-heavy.txt": self.gpu_heavy,
            "gpu.txt": self.gpu,
        }
        return {name: "".join(f"{package}\n" for package in names) for name, names in lists.items()}


def split_layers(packages: dict[str, Locked], rule: LayerRule) -> Layers:
    """Decide each package's layer.

    ``cpu`` is the engine and all that ``cpu_roots`` need, without ``gpu_only`` and without following the
    engine's own requirements; ``gpu`` is the rest. In both, names that match ``heavy`` form a layer of
    their own.
    Raises KitError ``bad-pins`` (exit 2) when a root is not in the lock.
    """
    absent = sorted({*rule.cpu_roots, rule.engine} - packages.keys())
    if absent:
        raise KitError(
            "bad-pins",
            f"layers.cpu_roots names packages that the lock does not hold: {', '.join(absent)}",
            remedy="take them out of layers.cpu_roots in pins.toml, or require them in the pin set",
            exit_code=Exit.USAGE,
        )
    cpu = _closure(packages, rule)
    rest = packages.keys() - cpu
    return Layers(
        cpu_heavy=_matching(cpu, rule.heavy, wanted=True),
        cpu=_matching(cpu, rule.heavy, wanted=False),
        gpu_heavy=_matching(rest, rule.heavy, wanted=True),
        gpu=_matching(rest, rule.heavy, wanted=False),
    )


def _closure(packages: dict[str, Locked], rule: LayerRule) -> set[str]:
    needs: dict[str, list[str]] = {name: [] for name in packages}
    for locked in packages.values():
        for asker in locked.needed_by:
            if asker in needs:
                needs[asker].append(locked.name)
    found = {rule.engine}
    waiting = list(rule.cpu_roots)
    while waiting:
        name = waiting.pop()
        if name not in found and name not in rule.gpu_only:
            found.add(name)
            waiting.extend(needs[name])
    return found


def _matching(names: Iterable[str], patterns: tuple[str, ...], *, wanted: bool) -> tuple[str, ...]:
    return tuple(sorted(name for name in names if any(fnmatchcase(name, p) for p in patterns) is wanted))
