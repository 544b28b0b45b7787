"""Which facts of cards, drivers and NCCL do the checks rest on? Read from the package's data files."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass

import msgspec

from kitctl.plan.finding_book import FindingBook, read_finding_book


class Card(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind of card: its name as nvidia-smi begins it, its compute capability and its memory as sold."""

    name: str
    arch: str
    memory_gib: int
    unified_memory: bool = False


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a fact turns into a finding."""

    used_memory_block_share: float
    used_memory_warn_mib: int
    shm_min_bytes: int
    disk_warn_share: float
    disk_margin_bytes: int
    clock_skew_warn_s: float
    power_limit_note_share: float
    buildx_min: str
    compose_min: str


class Throttle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Throttle reasons of nvidia-smi that cost speed."""

    warn: tuple[str, ...]


class _GpuFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    card: tuple[Card, ...]
    cuda_of_driver_branch: dict[str, str]
    limits: Limits
    throttle: Throttle


class NcclNames(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The environment variables of NCCL and what each accepts."""

    levels: tuple[str, ...]
    level_variables: tuple[str, ...]
    legacy_levels: dict[str, str]
    foreign_levels: dict[str, str]
    variables: dict[str, str | tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class HostTables:
    """All data that host checks need."""

    book: FindingBook
    cards: tuple[Card, ...]
    cuda_of_driver_branch: dict[str, str]
    limits: Limits
    throttle: Throttle
    nccl: NcclNames

    def card(self, name: str) -> Card | None:
        """The card whose name is the longest that ``name`` begins with."""
        fitting = [card for card in self.cards if name.startswith(card.name)]
        return max(fitting, key=lambda card: len(card.name), default=None)

    def cuda_of_driver(self, version: str) -> str | None:
        """The newest CUDA that the driver's branch offers, when the branch is known."""
        return self.cuda_of_driver_branch.get(version.partition(".")[0])

    def branch_for_cuda(self, cuda: str) -> str:
        """The first driver branch that offers ``cuda``, or a word for one newer than all known."""
        fitting = [b for b, offered in self.cuda_of_driver_branch.items() if is_at_least(offered, cuda)]
        newest = max(self.cuda_of_driver_branch, key=int)
        return min(fitting, key=int, default=f"newer than {newest}")


def read_host_tables(*, findings: str, gpus: str, nccl: str) -> HostTables:
    """The tables in the texts of host_findings.yaml, gpus.toml and nccl.toml."""
    file = msgspec.convert(tomllib.loads(gpus), _GpuFile)
    return HostTables(
        book=read_finding_book(findings),
        cards=file.card,
        cuda_of_driver_branch=file.cuda_of_driver_branch,
        limits=file.limits,
        throttle=file.throttle,
        nccl=msgspec.convert(tomllib.loads(nccl), NcclNames),
    )


def is_at_least(version: str, minimum: str) -> bool:
    """Whether dotted ``version`` is ``minimum`` or newer; only the parts that ``minimum`` names count."""
    wanted = _parts(minimum)
    return (*_parts(version), *(0,) * len(wanted))[: len(wanted)] >= wanted


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
