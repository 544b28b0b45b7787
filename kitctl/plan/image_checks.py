"""Is the image on the engine the one that its pin set describes, and has it passed its test?"""

from __future__ import annotations

from collections.abc import Mapping

from kitctl.finding import Finding, Severity
from kitctl.kit.image_record import ImageRecord
from kitctl.plan.build import LABEL_PINS, BaseKind


def check_image(
    reference: str, *, image_id: str, labels: Mapping[str, str], pins_hash: str, record: ImageRecord | None
) -> tuple[Finding, ...]:
    """Findings on an image of the kit: other pins, a failed or missing test, a base that may move."""
    findings = []
    if labels.get(LABEL_PINS) != pins_hash:
        findings.append(_other_pins(reference, labels.get(LABEL_PINS), pins_hash))
    if record is not None and record.image_id != image_id:
        return (*findings, _other_image(reference, image_id, record))
    smoke = record.smoke if record is not None else None
    if smoke is None or smoke.image_id != image_id:
        findings.append(
            Finding(
                code="image-untested",
                severity=Severity.NOTE,
                cause=f"{reference} has not been tested on this machine",
                remedy="kitctl images smoke",
            )
        )
    elif not smoke.ok:
        failed = [f"{check.name}: {check.detail}" for check in smoke.checks if not check.ok]
        findings.append(
            Finding(
                code="image-failed",
                severity=Severity.BLOCK,
                cause=f"{reference} failed its test on {smoke.at[:10]}",
                evidence=tuple(failed[:5]),
                remedy="mend the pin set or the Dockerfile and run kitctl build again",
            )
        )
    if labels.get("kitctl.base") == BaseKind.UNLOCKED:
        findings.append(
            Finding(
                code="image-unlocked",
                severity=Severity.WARN,
                cause=f"{reference} stands on a base named by a tag, which may be another one tomorrow",
                evidence=(f"base: {labels.get('org.opencontainers.image.base.name')}",),
                remedy="kitctl build --base IMAGE@sha256:DIGEST, or without --base for the kit's own",
            )
        )
    return tuple(findings)


def _other_pins(reference: str, found: str | None, wanted: str) -> Finding:
    return Finding(
        code="image-pins-differ",
        severity=Severity.BLOCK,
        cause=f"{reference} was not built from the pin set that the kit holds",
        evidence=(f"image: {found[:12] if found else 'no pins label'}", f"kit: {wanted[:12]}"),
        remedy="kitctl build",
    )


def _other_image(reference: str, found: str, record: ImageRecord) -> Finding:
    return Finding(
        code="image-not-recorded",
        severity=Severity.BLOCK,
        cause=f"{reference} is not the image that was built and recorded here on {record.built_at[:10]}",
        evidence=(f"engine: {found}", f"record: {record.image_id}"),
        remedy=f"kitctl images smoke {record.image} --release {record.release} --stage {record.stage}",
    )
