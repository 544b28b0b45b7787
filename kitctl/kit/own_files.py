"""Are the files of kitctl and its kit those that its wheel, or a commit of its repository, names?"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass

from kitctl.finding import Finding, Severity

_SHOWN = 8


@dataclass(frozen=True, kw_only=True)
class OwnFiles:
    """A folder's files by relative path. ``wanted`` holds the hash that ``against`` names, ``found`` the one on disk.

    ``found`` lacks what is not there. ``unknown`` are files that nothing names. ``reason``: why there is nothing to
    hold the files against, ``None`` when there is.
    """

    root: str
    against: str = ""
    wanted: Mapping[str, str]
    found: Mapping[str, str]
    unknown: tuple[str, ...] = ()
    reason: str | None = None


def read_record(text: str) -> dict[str, str]:
    """A wheel's RECORD: path to hash (``sha256=...``, base64); without the files that installers write."""
    rows = csv.reader(text.splitlines())
    hashed = {row[0]: row[1] for row in rows if len(row) == 3 and row[1].startswith("sha256=")}
    installers = ("INSTALLER", "REQUESTED", "direct_url.json", "RECORD")
    kept = {path: found for path, found in hashed.items() if not path.startswith("..")}
    return {
        path: found
        for path, found in kept.items()
        if not (".dist-info/" in path and path.endswith(installers)) and not path.endswith(".pyc")
    }


def judge_own_files(seen: OwnFiles) -> tuple[Finding, ...]:
    """Blocking findings on what is missing, changed or not named; ``()`` when every file is proven."""
    if seen.reason is not None:
        return (_finding("kit-unproven", seen, f"nothing proves the files: {seen.reason}", ()),)
    missing = sorted(path for path in seen.wanted if path not in seen.found)
    changed = sorted(p for p, found in seen.found.items() if p in seen.wanted and seen.wanted[p] != found)
    told = (
        ("kit-file-missing", "files that {} names are not there", missing),
        ("kit-file-changed", "files are not as {} names them", changed),
        ("kit-file-unknown", "files are there that {} does not name", sorted(seen.unknown)),
    )
    return tuple(
        _finding(code, seen, f"{len(paths)} {cause.format(seen.against)}", tuple(paths))
        for code, cause, paths in told
        if paths
    )


def _finding(code: str, seen: OwnFiles, cause: str, paths: tuple[str, ...]) -> Finding:
    more = (f"and {len(paths) - _SHOWN} more",) if len(paths) > _SHOWN else ()
    return Finding(
        code=code,
        severity=Severity.BLOCK,
        cause=cause,
        evidence=(*paths[:_SHOWN], *more),
        remedy="install kitctl anew from its wheel, or commit or undo the changes of its repository",
        where=seen.root,
    )
