"""What is known of an image that was built here: inputs, base, times, sizes, and what its smoke test found."""

from __future__ import annotations

import msgspec

SCHEMA = "kitctl.image/1"


class Layer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One layer: what it weighs unpacked, and the step that made it."""

    size_bytes: int
    step: str


class SmokeCheck(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One check inside the image. ``detail``: what was seen, in one line."""

    name: str
    ok: bool
    detail: str
    seconds: float


class Smoke(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole smoke run of one image."""

    at: str
    image_id: str
    checks: tuple[SmokeCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)


class ImageRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The record of one build. ``base_id`` is the base image's id; ``seconds`` maps a phase to its time.

    ``pushed``: each name under which a registry has it, with the digest there.
    """

    schema: str = SCHEMA
    image: str
    release: str
    stage: str
    reference: str
    image_id: str
    pins_hash: str
    inputs_hash: str
    base: str
    base_kind: str
    base_id: str | None
    built_at: str
    seconds: dict[str, float]
    size_bytes: int
    layers: tuple[Layer, ...]
    smoke: Smoke | None = None
    pushed: dict[str, str] = {}


def record_text(record: ImageRecord) -> str:
    """The record as JSON text."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2).decode() + "\n"


def read_image_record(text: str) -> ImageRecord | None:
    """The record in ``text``, or ``None`` for one that another version wrote or that is damaged."""
    try:
        return msgspec.json.decode(text, type=ImageRecord)
    except msgspec.MsgspecError:
        return None
