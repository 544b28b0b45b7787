"""Which images do the services of add-ons run, and are they pinned by digest?"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from kitctl.errors import Exit, KitError
from kitctl.kit.typed import read_typed
from kitctl.kit.yaml_reader import read_yaml

IMAGES_FILE = "addon-images.yaml"
_ENTRY = re.compile(r"(?P<name>[\w.-]+):\s*$")
_DIGEST_LINE = re.compile(r"\s+digest:")


class AddonImage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An image by its readable tag, and the digest that the registry had for it when it was asked."""

    reference: str
    digest: str | None = None

    @property
    def is_locked(self) -> bool:
        """Whether the bytes are pinned."""
        return self.digest is not None or "@sha256:" in self.reference

    @property
    def exact(self) -> str:
        """What the engine is given: by digest where there is one (an engine ignores the tag beside it)."""
        if self.digest is None or "@" in self.reference:
            return self.reference
        name, _, tag = self.reference.rpartition(":")
        return f"{name if name and '/' not in tag else self.reference}@{self.digest}"


def read_addon_images(text: str, *, source: str) -> dict[str, AddonImage]:
    """The entries by name; empty text is none. Raises KitError ``bad-addon-images``, ``bad-yaml`` (exit 2)."""
    tree = read_yaml(text, source=source) if text.strip() else {}
    found: dict[str, AddonImage] = {}
    for name, entry in tree.items():
        if not isinstance(entry, dict):
            raise _bad(f"{source}: {name}: must be a mapping with reference", source)
        found[name] = _read_entry(entry, f"{source}: {name}")
    return found


def _read_entry(entry: dict[str, Any], place: str) -> AddonImage:
    image = read_typed(entry, AddonImage, source_of=lambda _: place, code="bad-addon-images")
    if image.digest is not None and not re.fullmatch(r"sha256:[0-9a-f]{64}", image.digest):
        raise _bad(f"{place}.digest: must be sha256: and 64 hexadecimal digits", place)
    return image


def write_digest(text: str, name: str, digest: str) -> str:
    """``text`` with the entry's digest set; every other line stays as it is. ``name`` must be an entry."""
    lines, inside = [], False
    for line in text.splitlines():
        entry = _ENTRY.match(line)
        inside = entry["name"] == name if entry else inside
        if inside and _DIGEST_LINE.match(line):
            continue
        lines.append(line)
        if inside and line.lstrip().startswith("reference:"):
            lines.append(f"  digest: {digest}")
    return "\n".join(lines) + "\n"


def _bad(cause: str, source: str) -> KitError:
    return KitError("bad-addon-images", cause, remedy=f"mend it in {source}", exit_code=Exit.USAGE)
