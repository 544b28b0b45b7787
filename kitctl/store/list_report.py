"""How are the models of a lock told, with what of them is there?"""

from __future__ import annotations

from collections.abc import Sequence

from kitctl.kit.models_lock import ModelEntry
from kitctl.store.place import ModelPlace
from kitctl.store.sizes import size_text


def status_of(place: ModelPlace) -> str:
    """``complete``, ``partial`` or ``absent``."""
    if place.is_complete:
        return "complete"
    has_some = any(seen.size_bytes or seen.part_bytes for seen in place.seen)
    return "partial" if has_some else "absent"


def list_row(entry: ModelEntry, place: ModelPlace, *, stacks: list[str], is_users: bool) -> dict[str, object]:
    """One model of the contract ``kitctl.models/1``."""
    return {
        "name": entry.repo,
        "state": str(entry.state),
        "status": status_of(place),
        "commit": entry.commit,
        "revision": entry.revision,
        "licence": entry.licence,
        "gated": entry.gated,
        "drafter_for": entry.drafter_for,
        "files": len(entry.files),
        "size_bytes": entry.size_bytes,
        "missing_bytes": place.missing_bytes,
        "folder": str(place.host_dir),
        "is_users": is_users,
        "stacks": stacks,
    }


def list_table(found: Sequence[tuple[ModelEntry, ModelPlace]]) -> list[str]:
    """One line a model for a person."""
    width = max((len(entry.repo) for entry, _ in found), default=0)
    lines = []
    for entry, place in found:
        size = size_text(entry.size_bytes) if entry.size_bytes is not None else "?"
        missing = size_text(place.missing_bytes) if place.missing_bytes else "nothing"
        lines.append(
            f"{entry.repo:{width}}  {entry.state:13}  {size:>7}  {status_of(place):8}  {missing} missing"
        )
    return lines
