"""What does one check say: how bad, why, on which evidence, and what mends it?"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from kitctl.kit.near import did_you_mean


class Severity(StrEnum):
    """``block`` stops fetch, build and start; ``warn`` costs speed or safety; ``note`` is worth knowing."""

    BLOCK = "block"
    WARN = "warn"
    NOTE = "note"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One check's result. ``where``: the file and field, fact or GPU that it is about, if any."""

    code: str
    severity: Severity
    cause: str
    remedy: str
    evidence: tuple[str, ...] = ()
    where: str | None = None


def blocking(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings that forbid a start, in the order given."""
    return tuple(finding for finding in findings if finding.severity is Severity.BLOCK)


def all_blocking(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings, each a block: what a start only notes, such as a model yet to be fetched, fails a proof."""
    return tuple(msgspec.structs.replace(finding, severity=Severity.BLOCK) for finding in findings)


def without_skipped(findings: Iterable[Finding], skip: frozenset[str]) -> tuple[Finding, ...]:
    """The findings, with those whose code the user skips turned into notes that say so."""
    return tuple(_skipped(finding) if finding.code in skip else finding for finding in findings)


def skipped_in_vain(findings: Iterable[Finding], skip: Iterable[str]) -> tuple[str, ...]:
    """A line of warning for each code to skip that no finding has."""
    found = {finding.code for finding in findings}
    return tuple(
        f"--skip {code}: nothing is skipped, since no finding here has that code; {did_you_mean(code, found)}"
        for code in dict.fromkeys(skip)
        if code not in found
    )


def _skipped(finding: Finding) -> Finding:
    if finding.severity is Severity.NOTE:
        return finding
    cause = f"{finding.cause} (skipped, was {finding.severity})"
    return msgspec.structs.replace(finding, severity=Severity.NOTE, cause=cause)


def finding_lines(findings: Iterable[Finding]) -> list[str]:
    """Findings as text for a person, worst first, each with its evidence and remedy."""
    order = [Severity.BLOCK, Severity.WARN, Severity.NOTE]
    lines: list[str] = []
    for finding in sorted(findings, key=lambda found: order.index(found.severity)):
        place = f" [{finding.where}]" if finding.where else ""
        lines.append(f"{finding.severity.upper():5} {finding.code}{place}: {finding.cause}")
        lines.extend(f"      seen: {line}" for line in finding.evidence)
        lines.append(f"      do:   {finding.remedy}")
    return lines
