"""What was proven against what, and how is that told?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from kitctl.finding import Finding, Severity, blocking, finding_lines
from kitctl.kit.image_record import ImageRecord
from kitctl.kit.json_text import parse_json

SCHEMA = "kitctl.verify/1"
_SHOWN = 8


class Kind(StrEnum):
    """What is proven."""

    KIT = "kit"
    IMAGE = "image"
    MODEL = "model"


@dataclass(frozen=True, kw_only=True)
class Proven:
    """One thing held against what names it. ``detail``: what was looked at, in a few words."""

    kind: Kind
    name: str
    against: str
    detail: str
    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing that was found speaks against it."""
        return not blocking(self.findings)


def proofs_json(proofs: Sequence[Proven], *, level: str) -> dict[str, Any]:
    """``verify --json``: the versioned contract ``kitctl.verify/1``."""
    rows = [
        {
            "kind": str(one.kind),
            "name": one.name,
            "ok": one.ok,
            "against": one.against,
            "detail": one.detail,
            "findings": [msgspec.to_builtins(finding) for finding in one.findings],
        }
        for one in proofs
    ]
    return {"schema": SCHEMA, "ok": all(one.ok for one in proofs), "level": level, "proofs": rows}


def proof_lines(proofs: Sequence[Proven]) -> tuple[str, ...]:
    """One line each, then what was found."""
    rows = [
        f"{'ok  ' if one.ok else 'FAIL'} {one.kind:5} {one.name}: {one.detail}, against {one.against}"
        for one in proofs
    ]
    return (*rows, *finding_lines(finding for one in proofs for finding in one.findings))


def check_record(reference: str, record: ImageRecord | None) -> tuple[Finding, ...]:
    """A finding when nothing here says which image the reference should be."""
    if record is not None:
        return ()
    return (
        Finding(
            code="image-unrecorded",
            severity=Severity.BLOCK,
            cause=f"nothing here records which image {reference} should be",
            remedy="kitctl images smoke tests it and writes its record",
            where=reference,
        ),
    )


def check_bill(text: str, record: ImageRecord, *, locked: Mapping[str, str]) -> tuple[Finding, ...]:
    """Findings on an image's bill of materials: unreadable, of another image, or with packages that are not the lock's.

    ``locked``: the lock's version by package name.
    """
    bill = _bill(text)
    if bill is None:
        return (_bill_finding("image-bill-unreadable", record, "has no readable bill of materials", ()),)
    stated = {row["name"]: row["value"] for row in bill["metadata"]["component"]["properties"]}
    wanted = {"kitctl:pins": record.pins_hash, "kitctl:image-id": record.image_id}
    wrong = [f"{name}: {stated.get(name)}, record: {value}" for name, value in wanted.items()]
    if any(stated.get(name) != value for name, value in wanted.items()):
        cause = "has the bill of materials of another image"
        return (_bill_finding("image-bill-differs", record, cause, tuple(wrong)),)
    found = {
        row["name"]: row["version"]
        for row in bill["components"]
        if str(row.get("purl", "")).startswith("pkg:pypi/")
    }
    others = [
        f"{name} {found[name]}, locked {locked[name]}"
        for name in found
        if locked.get(name, found[name]) != found[name]
    ]
    if not others:
        return ()
    cause = f"holds {len(others)} packages in other versions than the lock"
    return (_bill_finding("image-packages-differ", record, cause, tuple(sorted(others)[:_SHOWN])),)


def check_listing(kept: str, now: str, record: ImageRecord) -> tuple[Finding, ...]:
    """A finding when the image's packages, listed now, are not those of its bill of materials."""
    if kept == now or _bill(kept) is None:
        return ()
    before, after = (
        {row["bom-ref"]: row["version"] for row in parse_json(text)["components"]} for text in (kept, now)
    )
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    changes = tuple(
        f"{name}: {before.get(name)} in the bill, {after.get(name)} in the image" for name in names
    )
    return (
        _bill_finding("image-bill-differs", record, "holds other packages than its bill", changes[:_SHOWN]),
    )


def _bill(text: str) -> dict[str, Any] | None:
    """The bill as a tree, ``None`` for what is no bill."""
    try:
        tree = parse_json(text)
        is_bill = isinstance(tree["metadata"]["component"]["properties"], list)
        return tree if is_bill and isinstance(tree["components"], list) else None
    except (ValueError, KeyError, TypeError):
        return None


def _bill_finding(code: str, record: ImageRecord, cause: str, evidence: tuple[str, ...]) -> Finding:
    return Finding(
        code=code,
        severity=Severity.BLOCK,
        cause=f"{record.reference} {cause}",
        evidence=evidence,
        remedy=f"kitctl images smoke {record.image} --release {record.release} --stage {record.stage}",
        where=record.reference,
    )
