"""An image's packages as a CycloneDX 1.6 bill of materials."""

from __future__ import annotations

import json
from collections.abc import Mapping

from kitctl.kit.image_record import ImageRecord
from kitctl.plan.image_diff import Contents


def sbom_text(contents: Contents, record: ImageRecord) -> str:
    """CycloneDX JSON: the image, its Python and its distribution packages, sorted; no time and no serial number,
    so that the same image gives the same text.
    """
    distribution = record.base.partition(":")[2].partition("-")[0] if record.base_kind == "kit" else "debian"
    components = [
        *_components(contents.python, "pypi", "pypi"),
        *_components(contents.debian, "deb", f"deb/{distribution}"),
    ]
    body = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "container",
                "bom-ref": record.reference,
                "name": record.image,
                "version": record.release,
                "properties": [
                    {"name": "kitctl:pins", "value": record.pins_hash},
                    {"name": "kitctl:image-id", "value": record.image_id},
                    {"name": "kitctl:stage", "value": record.stage},
                ],
            }
        },
        "components": components,
    }
    return json.dumps(body, indent=1) + "\n"


def _components(packages: Mapping[str, str], kind: str, prefix: str) -> list[dict[str, str]]:
    found = []
    for name, version in sorted(packages.items()):
        purl = f"pkg:{prefix}/{_quoted(name)}@{_quoted(version)}"
        found.append(
            {"type": "library", "bom-ref": f"{kind}:{name}", "name": name, "version": version, "purl": purl}
        )
    return found


def _quoted(text: str) -> str:
    """What package names and versions hold beyond letters, digits and ``.-_~``, as a package URL wants it."""
    return text.replace("%", "%25").replace("+", "%2B").replace(":", "%3A")
