"""Refuse an image that is not what the kit pins, before anything is started from it."""

from __future__ import annotations

from kitctl.edge.docker_engine import image_labels
from kitctl.edge.image_store import load_image_record
from kitctl.errors import Exit, KitError
from kitctl.finding import Finding, blocking, without_skipped
from kitctl.plan.image_checks import check_image
from kitctl.plan.types import ImageChoice


def prove_image(image: ImageChoice, *, skip: frozenset[str] = frozenset()) -> tuple[Finding, ...]:
    """What is worth knowing of an image of the kit; ``()`` for one that the kit does not build.

    Raises KitError (exit 3) with the code of the first finding that blocks.
    """
    found = image_labels(image.reference)
    if image.pins_hash is None or found is None:
        return ()
    record = load_image_record(image.reference)
    findings = without_skipped(
        check_image(
            image.reference, image_id=found[0], labels=found[1], pins_hash=image.pins_hash, record=record
        ),
        skip,
    )
    for finding in blocking(findings):
        raise KitError(
            finding.code,
            finding.cause,
            evidence=finding.evidence,
            remedy=f"{finding.remedy}; or --skip {finding.code}",
            exit_code=Exit.REFUSED,
        )
    return findings
