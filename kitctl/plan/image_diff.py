"""What differs between two images: packages, files, sizes?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kitctl.errors import Exit, KitError

_SHOWN = 40


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What an image holds. ``files``: path to size in bytes, mode, and sha256 or link target (empty: not read)."""

    python: dict[str, str]
    debian: dict[str, str]
    files: dict[str, tuple[int, str, str]]


@dataclass(frozen=True, kw_only=True)
class Change:
    """One name that differs; ``None`` where an image does not have it."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, kw_only=True)
class ImageDiff:
    """All that differs, each sorted by name. ``size_change_bytes`` counts files alone."""

    python: tuple[Change, ...]
    debian: tuple[Change, ...]
    files: tuple[Change, ...]
    size_change_bytes: int

    @property
    def is_empty(self) -> bool:
        """Whether the two hold the same."""
        return not (self.python or self.debian or self.files)


def read_contents(text: str, *, reference: str) -> Contents:
    """The listing of an image. Raises KitError ``image-unreadable`` (exit 4)."""
    try:
        return msgspec.json.decode(text, type=Contents)
    except msgspec.MsgspecError as broken:
        raise KitError(
            "image-unreadable",
            f"what {reference} holds could not be listed",
            evidence=(str(broken), *text.splitlines()[-2:]),
            remedy="check that the image is one of the kit's and is on this engine: kitctl images list",
            exit_code=Exit.BUILD,
        ) from broken


def diff_contents(before: Contents, after: Contents) -> ImageDiff:
    """What changed from ``before`` to ``after``."""
    size = sum(size for size, _, _ in after.files.values()) - sum(
        size for size, _, _ in before.files.values()
    )
    return ImageDiff(
        python=_changes(before.python, after.python),
        debian=_changes(before.debian, after.debian),
        files=_changes(
            {path: _file_text(*entry) for path, entry in before.files.items()},
            {path: _file_text(*entry) for path, entry in after.files.items()},
        ),
        size_change_bytes=size,
    )


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Change, ...]:
    names = sorted(before.keys() | after.keys())
    found = (Change(name=name, before=before.get(name), after=after.get(name)) for name in names)
    return tuple(change for change in found if change.before != change.after)


def _file_text(size: int, mode: str, content: str) -> str:
    return f"{size} B, {mode}{f', {content[:19]}' if content else ''}"


def diff_json(diff: ImageDiff, before: str, after: str) -> dict[str, Any]:
    """``images diff --json``: the versioned contract ``kitctl.image-diff/1``."""
    return {
        "schema": "kitctl.image-diff/1",
        "before": before,
        "after": after,
        "same": diff.is_empty,
        "size_change_bytes": diff.size_change_bytes,
        **{
            kind: [{"name": c.name, "before": c.before, "after": c.after} for c in changes]
            for kind, changes in (("python", diff.python), ("debian", diff.debian), ("files", diff.files))
        },
    }


def diff_lines(diff: ImageDiff) -> tuple[str, ...]:
    """The same for a person; of the files the first 40."""
    if diff.is_empty:
        return ("the two images hold the same packages and files",)
    lines = [f"size: {diff.size_change_bytes:+} B"]
    for kind, changes in (("python", diff.python), ("debian", diff.debian), ("file", diff.files)):
        lines.extend(f"{kind:7} {c.name}: {c.before or '-'} -> {c.after or '-'}" for c in changes[:_SHOWN])
        if len(changes) > _SHOWN:
            lines.append(f"{kind:7} and {len(changes) - _SHOWN} more (--json shows all)")
    return tuple(lines)
