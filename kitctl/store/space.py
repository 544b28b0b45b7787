"""Is there room, on each file system that is written to, before the first byte is?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kitctl.finding import Finding, Severity
from kitctl.store.sizes import size_text

MARGIN = 0.05
"""Kept free beyond what is fetched: links, folders, and what else writes to the disk meanwhile."""


@dataclass(frozen=True, kw_only=True)
class SpaceNeed:
    """What one purpose writes. ``device`` tells file systems apart; ``free_bytes`` is what the user may take."""

    purpose: str
    path: str
    device: int
    free_bytes: int
    needed_bytes: int


def judge_space(needs: Sequence[SpaceNeed]) -> tuple[Finding, ...]:
    """A blocking finding for each file system that its needs, and the margin, do not fit."""
    devices = sorted({need.device for need in needs})
    shared = [[need for need in needs if need.device == device] for device in devices]
    return tuple(finding for group in shared if (finding := _judge_device(group)))


def _judge_device(group: Sequence[SpaceNeed]) -> Finding | None:
    needed = sum(need.needed_bytes for need in group)
    wanted = needed + int(needed * MARGIN)
    free = min(need.free_bytes for need in group)
    if needed == 0 or wanted <= free:
        return None
    lines = tuple(f"{need.purpose} in {need.path}: {size_text(need.needed_bytes)}" for need in group)
    short = size_text(wanted - free)
    return Finding(
        code="disk-full",
        severity=Severity.BLOCK,
        cause=f"{group[0].path} has {size_text(free)} free, {size_text(wanted)} are needed: {short} too little",
        evidence=lines,
        remedy="free space ('kitctl models du' lists the largest), or name a larger disk with --store",
        where=group[0].path,
    )
